"""Hand-made outputs over the families, each with the verdict that is right for it.

`fails` maps a validator to the reason that it must give; {} means that nothing but information may
be said. Outputs are written as text; ⟦N⟧ is the id N. `cut` outputs ended by length.
"""

from dataclasses import dataclass, field
from typing import Any

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["at"],
        },
    },
}
USER_THEN_CALL = [
    {"role": "user", "content": "look twice"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "functions.look:0", "type": "function",
             "function": {"name": "look", "arguments": {"at": "sky"}}}
        ],
    },
    {"role": "tool", "tool_call_id": "functions.look:0", "name": "look", "content": "blue"},
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    family: str
    name: str
    output: str
    fails: dict[str, str] = field(default_factory=dict)
    mode: str | None = None
    cut: bool = False
    messages: Any = "Hi"
    tools: tuple[Any, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def rejected(self) -> bool:
        return any(v in REJECTING and r in REJECTING[v] for v, r in self.fails.items())


REJECTING = {
    "contract": {"empty_output", "prompt_count", "completion_count", "too_many_ids"},
    "prompt": {"prompt_unassigned", "extra_bos", "wrong_tail", "smuggled", "control_tokens"},
    "finish": {"nan_stop", "text_stop", "wrong_stop", "stop_not_last", "early_stop_id",
               "clamped_length", "length_on_stop"},
    "vocab": {"out_of_vocabulary", "unassigned", "forbidden"},
    "degeneration": {"zero_id", "single_id"},
}  # fmt: skip

PARAGRAPH = "The sum of two and two is four, since counting on from two by two gives four. "
LOOP = "I should check that again, step by step. " * 30
ENDS = {
    "kimi_k2": "<|im_end|>",
    "kimi_k2_thinking": "<|im_end|>",
    "kimi_k25": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen35": "<|im_end|>",
    "deepseek_r1": "<｜end▁of▁sentence｜>",
    "deepseek_v32": "<｜end▁of▁sentence｜>",
    "glm45": "<|user|>",
    "gpt_oss": "<|return|>",
    "minimax_m2": "[e~[",
    "llama3": "<|eot_id|>",
    "smollm2": "<|im_end|>",
}
OPENED = ("kimi_k25", "qwen35", "deepseek_r1", "deepseek_v32", "minimax_m2")
"""Families whose prompt opens the reasoning in their first mode."""
EMITS = ("kimi_k2_thinking", "qwen3", "glm45")
"""Families that open it themselves."""
PLAIN = ("kimi_k2", "llama3", "smollm2")


def _natural() -> list[Case]:
    """What every family does on a good day, and oddities that must be kept."""
    cases = []
    for family, end in ENDS.items():
        say = f"{PARAGRAPH}"
        think = {"gpt_oss": "<|channel|>analysis<|message|>" + say + "<|end|><|start|>assistant"
                 "<|channel|>final<|message|>"}.get(family)  # fmt: skip
        if think is None:
            think = f"{say}</think>" if family in OPENED else ""
            think = f"<think>{say}</think>" if family in EMITS else think
        cases.append(Case(family, "a whole answer", f"{think}It is 4.{end}"))
        cases.append(Case(family, "other alphabets", f"{think}четыре 四 ٤ 🙂 é{end}"))
        open_end = think.replace("</think>", "").replace("<think>", "<think>")
        if family in (*OPENED, *EMITS):
            cases.append(
                Case(family, "a cut reasoning chain", open_end, {"finish": "length_in_think"},
                     cut=True)
            )  # fmt: skip
        cases.append(
            Case(family, "a cut answer", f"{think}It is", {"finish": "length_in_answer"}, cut=True)
        )
        loop = {"degeneration": "loop"}
        cases.append(Case(family, "a loop that it left", f"{think}{LOOP}Done.{end}", loop))
        cut = {"finish": "length_in_answer", **loop}
        cases.append(Case(family, "a greedy loop", f"{think}{LOOP}", cut, cut=True))
    return cases


def _broken() -> list[Case]:
    """What an engine or a pipeline did, in every family."""
    cases = []
    for family, end in ENDS.items():
        think = f"{PARAGRAPH}</think>" if family in OPENED else ""
        think = f"<think>{PARAGRAPH}</think>" if family in EMITS else think
        think = "<|channel|>final<|message|>" if family == "gpt_oss" else think
        good = f"{think}It is 4.{end}"
        cases.append(
            Case(
                family,
                "NaN rewritten as a stop",
                good,
                {"finish": "nan_stop"},
                changes={"matched_token": -1, "matched_text": "NaN happened"},
            )
        )
        cases.append(
            Case(
                family,
                "an id beyond the output layer",
                f"⟦999999⟧{good}",
                {"vocab": "out_of_vocabulary"},
            )
        )
        early = {"finish": "early_stop_id"}
        if family == "glm45":
            cases.append(Case(family, "a role opener inside", f"{think}It<|user|> is{end}", early))
        else:
            cases.append(Case(family, "a stop inside", f"{think}It{end} is 4.{end}", early))
        cases.append(
            Case(
                family,
                "a silent clamp",
                f"{think}It is",
                {"finish": "clamped_length"},
                cut=True,
                changes={"requested_max_new_tokens": 5000},
            )
        )
    return [c for c in cases]  # noqa: C416


def _specific() -> list[Case]:
    kimi = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|><|im_end|>"
    call = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
    good = call.format("look:0", '{"at": "sky"}')
    tools = (LOOK,)

    def k25(name: str, output: str, fails: dict[str, str] | None = None, **more: Any) -> Case:
        return Case("kimi_k25", name, output, fails or {}, **more)

    def tool(name: str, inner: str, reason: str = "", **more: Any) -> Case:
        fails = {"tool_calls": reason} if reason else {}
        return k25(name, f"Look.</think>{kimi.format(inner)}", fails, tools=tools, **more)

    cut_call = "Look.</think><|tool_calls_section_begin|><|tool_call_begin|>functions.lo"
    return [
        tool("one call", good),
        tool("two calls", good + call.format("look:1", '{"at": "sea", "times": 2}')),
        tool("a malformed call", call.format("look:0", '{"at": "sky"'), "bad_json"),
        tool("a call id of its own making", call.format("look", "{}"), "bad_call_id"),
        tool("a counter that starts at 1", call.format("look:1", '{"at": "sky"}'),
             "wrong_counter"),
        tool("a tool that nobody offered", call.format("listen:0", "{}"), "unknown_tool"),
        tool("a wrong type", call.format("look:0", '{"at": 3}'), "schema"),
        tool("a missing argument", call.format("look:0", "{}"), "schema"),
        tool("a list of arguments", call.format("look:0", "[]"), "schema"),
        tool("an empty section", "", "unbalanced"),
        tool("a call in a call", "<|tool_call_begin|>" + good, "unbalanced"),
        tool("the counter goes on", call.format("look:1", '{"at": "sea"}'),
             messages=USER_THEN_CALL),
        tool("the counter starts again", good, "wrong_counter", messages=USER_THEN_CALL),
        k25("a call that the limit cut", cut_call, {"finish": "length_in_answer"}, cut=True,
            tools=tools),
        k25("a section left open at a stop", cut_call + "<|im_end|>",
            {"tool_calls": "unbalanced"}, tools=tools),
        k25("a marker spelt out", "Look.</think><|tool_call_section_begin|>look<|im_end|>",
            {"tool_calls": "spelt_out"}, tools=tools),
        k25("a section before the close", f"Look{kimi.format(good)[:-10]}</think><|im_end|>",
            {"thinking": "tool_before_close"}, tools=tools),
        k25("an empty think block", "</think>It is 4.<|im_end|>", {"thinking": "empty_reasoning"}),
        k25("nothing after the reasoning", "Two.</think><|im_end|>",
            {"thinking": "missing_answer"}),
        k25("never closed", f"{PARAGRAPH}<|im_end|>", {"thinking": "no_close"}),
        k25("closed twice", "Two.</think>It</think> is.<|im_end|>", {"thinking": "second_close"}),
        k25("opened again", "Two<think>.</think>It is.<|im_end|>", {"thinking": "second_open"}),
        k25("thinks in instant mode", "Two.</think>It is 4.<|im_end|>",
            {"thinking": "think_in_instant"}, mode="instant"),
        k25("instant", "It is 4.<|im_end|>", mode="instant"),
        k25("stops at its second stop", "Two.</think>It is 4.[EOS]"),
        k25("a role opener", "Two.</think>It<|im_user|> is.<|im_end|>", {"vocab": "forbidden"}),
        k25("its BOS", "[BOS]Two.</think>It is.<|im_end|>", {"vocab": "forbidden"}),
        k25("media", "Two.</think><|media_begin|>It is.<|im_end|>", {"vocab": "forbidden"}),
        k25("a reserved row", "Two.</think>It⟦163700⟧ is.<|im_end|>", {"vocab": "unassigned"}),
        k25("an id that is no stop", "Two.</think>It is 4.", {"finish": "wrong_stop"}),
        k25("another last id", "Two.</think>It is 4.<|im_end|>", {"finish": "stop_not_last"},
            changes={"matched_token": 163585}),
        k25("a stop string", "Two.</think>It is 4.<|im_end|>", {"finish": "text_stop"},
            changes={"matched_token": -1, "matched_text": "###"}),
        k25("says length, ends in its stop", "Two.</think>It is 4.<|im_end|>",
            {"finish": "length_on_stop"}, cut=True, changes={"requested_max_new_tokens": 900}),
        k25("id 0 to the end", "Two.</think>" + "⟦0⟧" * 40,
            {"degeneration": "zero_id", "finish": "length_in_answer"}, cut=True),
        k25("one id to the end", "Two.</think>" + "⟦70⟧" * 40,
            {"degeneration": "single_id", "finish": "length_in_answer"}, cut=True),
        k25("a long run", f"{PARAGRAPH * 4}</think>{'-' * 80} and that is it.<|im_end|>",
            {"degeneration": "long_run"}),
        k25("a handful of ids", "Two.</think>" + "".join(
            f"⟦7{i * i * i % 7}⟧" + f"⟦8{i % 3}⟧" * (i % 5) for i in range(900)),
            {"degeneration": "loop", "finish": "length_in_answer"}, cut=True),
        k25("half a character at the cut", "Two.</think>é⟦162⟧", {"finish": "length_in_answer"},
            cut=True),
        k25("half a character before a stop", "Two.</think>It⟦162⟧<|im_end|>",
            {"text": "broken_character"}),
        k25("more ids than asked", "Two.</think>It is 4.<|im_end|>", {"contract": "too_many_ids"},
            changes={"requested_max_new_tokens": 5}),
        k25("other prompt tokens", "Two.</think>It is 4.<|im_end|>", {"contract": "prompt_count"},
            changes={"prompt_tokens": 3}),
        k25("other output tokens", "Two.</think>It is 4.<|im_end|>",
            {"contract": "completion_count"}, changes={"completion_tokens": 3}),
        k25("nothing at all", "", {"contract": "empty_output", "finish": "wrong_stop",
                                   "thinking": "no_close"}),
        k25("a short loop up to the cut", "Two.</think>It is a broad" + "ad" * 40,
            {"degeneration": "loop", "finish": "length_in_answer"}, cut=True),
        k25("a short loop that it left", f"{PARAGRAPH}{'so, ' * 24}no.</think>It is 4.<|im_end|>",
            {"degeneration": "loop"}),
        k25("a wide table", f"Two.</think>{'|---' * 6}|\n{'| 12' * 6}|\n{'| 34' * 6}|<|im_end|>"),
        k25("a row of zeros", f"Two.</think>[{'0, ' * 14}0]<|im_end|>"),
        k25("a list repeats a line, once", "Two.</think>a, b, c\na, b, c\n<|im_end|>"),
        Case("qwen3", "a call", 'Ok<tool_call>\n{"name": "look", "arguments": {"at": "sky"}}\n'
             "</tool_call><|im_end|>", tools=tools),
        Case("qwen3", "a call without a name", "<tool_call>{}</tool_call><|im_end|>",
             {"tool_calls": "bad_call_id"}, tools=tools),
        Case("qwen3", "a call that is no JSON", "<tool_call>look</tool_call><|im_end|>",
             {"tool_calls": "bad_json"}, tools=tools),
        Case("qwen3", "two openings", "<tool_call><tool_call>{}</tool_call><|im_end|>",
             {"tool_calls": "unbalanced"}, tools=tools),
        Case("qwen3", "an empty block with its line breaks", "<think>\n\n</think>\n\nIt is 4."
             "<|im_end|>", {"thinking": "empty_reasoning"}),
        Case("qwen3", "line breaks for an answer", "<think>\nTwo.\n</think>\n\n<|im_end|>",
             {"thinking": "missing_answer"}),
        Case("qwen35", "line breaks for a reasoning", "\n</think>\n\nIt is 4.<|im_end|>",
             {"thinking": "empty_reasoning"}),
        Case("qwen3", "a reasoning of one word", "<think>\nTwo\n</think>\n\n4<|im_end|>"),
        Case("qwen3", "nothing but a call", '<think>\nOk\n</think>\n\n<tool_call>\n{"name": "look",'
             ' "arguments": {"at": "sky"}}\n</tool_call><|im_end|>', tools=tools),
        Case("qwen3", "a padded row", "Ok⟦151800⟧<|im_end|>", {"vocab": "unassigned"}),
        Case("qwen3", "a vision marker", "Ok<|vision_start|><|im_end|>", {"vocab": "forbidden"}),
        Case("qwen3", "no reasoning although it might", "It is 4.<|im_end|>"),
        Case("qwen35", "an XML call", "Ok.</think><tool_call>\n<function=look>\n<parameter=at>\nsky"
             "\n</parameter>\n<parameter=times>\n2\n</parameter>\n</function>\n</tool_call>"
             "<|im_end|>", tools=tools),
        Case("qwen35", "an XML call of a wrong type", "Ok.</think><tool_call>\n<function=look>\n"
             "<parameter=at>\nsky\n</parameter>\n<parameter=times>\ntwo\n</parameter>\n"
             "</function>\n</tool_call><|im_end|>", {"tool_calls": "schema"}, tools=tools),
        Case("qwen35", "the row behind the last real id", "Ok.</think>It⟦248077⟧<|im_end|>",
             {"vocab": "unassigned"}),
        Case("deepseek_r1", "a call", "Ok.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look"
             '<｜tool▁sep｜>{"at": "sky"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
             "<｜end▁of▁sentence｜>", tools=tools),
        Case("deepseek_r1", "a fenced call", "Ok.</think><｜tool▁calls▁begin｜>"
             '<｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{"at": "sky"}\n```'
             "<｜tool▁call▁end｜>"
             "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>", tools=tools),
        Case("deepseek_r1", "the user's turn", "Ok.</think>It<｜User｜> is<｜end▁of▁sentence｜>",
             {"vocab": "forbidden"}),
        Case("glm45", "a call that hands over", "<think>Ok.</think><tool_call>look\n<arg_key>at"
             "</arg_key>\n<arg_value>sky</arg_value>\n</tool_call><|observation|>", tools=tools),
        Case("glm45", "a call to nobody", "<tool_call>listen\n</tool_call><|observation|>",
             {"tool_calls": "unknown_tool"}, tools=tools),
        Case("glm45", "its prefix", "[gMASK]It is 4.<|user|>", {"vocab": "forbidden"}),
        Case("minimax_m2", "a call", 'Ok.</think><minimax:tool_call>\n<invoke name="look">\n'
             '<parameter name="at">sky</parameter>\n</invoke>\n</minimax:tool_call>[e~[',
             tools=tools),
        Case("minimax_m2", "a role", "Ok.</think>It]~b] is[e~[", {"vocab": "forbidden"}),
        Case("llama3", "a second header", "It<|start_header_id|>user[e~[<|eot_id|>",
             {"vocab": "forbidden"}),
        Case("llama3", "ends a message", "It is 4.<|eom_id|>"),
        Case("gpt_oss", "a call", '<|channel|>commentary to=functions.look <|constrain|>json'
             '<|message|>{"at": "sky"}<|call|>', tools=tools),
        Case("gpt_oss", "a recipient before the channel", " to=functions.look<|channel|>commentary"
             ' json<|message|>{"at": 1}<|call|>', {"tool_calls": "schema"}, tools=tools),
        Case("gpt_oss", "analysis only", "<|channel|>analysis<|message|>Hm.<|return|>",
             {"channels": "no_final"}),
        Case("gpt_oss", "an unknown channel", "<|channel|>secret<|message|>Hm.<|return|>",
             {"channels": "unknown_channel"}),
        Case("gpt_oss", "a header without a channel", "<|message|>Hm.<|return|>",
             {"channels": "broken_header"}),
        Case("gpt_oss", "two channel markers", "<|channel|>final<|channel|>final<|message|>Hm."
             "<|return|>", {"channels": "broken_header"}),
        Case("gpt_oss", "analysis at the end", "<|channel|>final<|message|>It is 4.<|end|><|start|>"
             "assistant<|channel|>analysis<|message|>Hm.<|return|>", {"channels": "late_analysis"}),
        Case("gpt_oss", "cut in its analysis", "<|channel|>analysis<|message|>Hm, so",
             {"finish": "length_in_think"}, cut=True),
        Case("gpt_oss", "a preamble", "<|channel|>commentary<|message|>I will look.<|end|><|start|>"
             "assistant<|channel|>final<|message|>It is.<|return|>"),
        Case("kimi_k2_thinking", "an empty block of its own", "<think></think>It is 4.<|im_end|>",
             {"thinking": "empty_reasoning"}),
        Case("kimi_k2_thinking", "a close without an opening", "</think>It is 4.<|im_end|>",
             {"thinking": "empty_reasoning"}),
    ]  # fmt: skip


def _text_grammars() -> list[Case]:
    """Families whose calls are written in text: DeepSeek V3.2 and Llama-3."""
    tools, end = (LOOK,), "<｜end▁of▁sentence｜>"
    at = '<｜DSML｜parameter name="at" string="true">sky</｜DSML｜parameter>'
    times = '<｜DSML｜parameter name="times" string="false">{}</｜DSML｜parameter>'
    invoke = '<｜DSML｜invoke name="{}">\n{}\n</｜DSML｜invoke>'
    block = "<｜DSML｜function_calls>\n{}\n</｜DSML｜function_calls>"

    def v32(name: str, calls: str, reason: str = "", **more: Any) -> Case:
        fails = {"tool_calls": reason} if reason else {}
        return Case("deepseek_v32", name, f"Look.</think>{calls}{end}", fails, tools=tools, **more)

    def llama(name: str, output: str, reason: str = "", **more: Any) -> Case:
        fails = {"tool_calls": reason} if reason else {}
        return Case("llama3", name, output, fails, **{"tools": tools, **more})

    good = invoke.format("look", at)
    call = '{"name": "look", "parameters": {"at": "sky"}}'
    cut = {"finish": "length_in_answer"}
    return [
        v32("a call", block.format(good)),
        v32("a call after words", "I will look.\n\n" + block.format(good)),
        v32("two calls", block.format(good + invoke.format("look", at + times.format(2)))),
        v32("a call with JSON inside", block.format(invoke.format("look", '{"at": "sky"}'))),
        v32("a number as text", block.format(invoke.format("look", at + times.format('"2"'))),
            "schema"),
        v32("a number that is none", block.format(invoke.format("look", at + times.format("two"))),
            "bad_json"),
        v32("a missing argument", block.format(invoke.format("look", "")), "schema"),
        v32("a tool that nobody offered", block.format(invoke.format("listen", "")),
            "unknown_tool"),
        v32("a call without a name", block.format(invoke.format("", at)), "bad_call_id"),
        v32("a parameter left open", block.format(invoke.format("look", at[:-20])), "bad_json"),
        v32("an empty block", block.format(""), "unbalanced"),
        v32("a call outside of a block", good, "unbalanced"),
        v32("a block left open at a stop", block.format(good)[:-25], "unbalanced"),
        Case("deepseek_v32", "a call that the limit cut", "Ok.</think>" + block.format(good)[:60],
             cut, cut=True, tools=tools),
        Case("deepseek_v32", "a call in the reasoning", f"Ok {block.format(good)}</think>{end}",
             {"thinking": "tool_before_close"}, tools=tools),
        llama("a call", f"{call}<|eot_id|>"),
        llama("a call behind the tag", f"<|python_tag|>{call}<|eom_id|>"),
        llama("two calls", f"{call}; {call}<|eot_id|>"),
        llama("a call that says what it is", '{"type": "function", "name": "look", "parameters": '
              '{"at": "sky"}}<|eot_id|>'),
        llama("a built-in tool", '<|python_tag|>look.call(at="sky")<|eom_id|>'),
        llama("a built-in tool that nobody offered", '<|python_tag|>brave_search.call(query="x")'
              "<|eom_id|>", "unknown_tool"),
        llama("Python code", "<|python_tag|>print(2 + 3)<|eom_id|>", "unknown_tool"),
        llama("arguments of its own making", "<|python_tag|>look.call(sky)<|eom_id|>", "schema"),
        llama("a malformed call", f"{call[:-1]}<|eot_id|>", "bad_json"),
        llama("a wrong type", '{"name": "look", "parameters": {"at": 3}}<|eot_id|>', "schema"),
        llama("a tool that nobody offered", call.replace("look", "listen") + "<|eot_id|>",
              "unknown_tool"),
        llama("nothing behind the tag", "<|python_tag|><|eom_id|>", "bad_call_id"),
        llama("JSON that is no call", '{"name": "Ada", "age": 36}<|eot_id|>'),
        llama("JSON where nobody offered a tool", f"{call}<|eot_id|>", tools=()),
        Case("llama3", "a call that the limit cut", call[:-8], cut, cut=True, tools=tools),
        Case("llama3", "code that the limit cut", "<|python_tag|>print(2", cut, cut=True,
             tools=tools),
    ]  # fmt: skip


CORPUS = [*_natural(), *_broken(), *_specific(), *_text_grammars()]
