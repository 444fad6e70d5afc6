"""The families: their real ids for special tokens and role words, and templates that are this
project's own wording of the families' formats."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    """What a family's tokenizer and template are made of. `special` and `plain` are added tokens
    that are, or are not, marked as special; `words` are ordinary tokens at given ids."""

    name: str
    special: dict[str, int]
    template: str
    plain: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    eos: str = ""
    bos: str = ""
    eos_ids: tuple[int, ...] = ()
    vocab_size: int = 0
    modes: dict[str, dict[str, Any]] = field(default_factory=lambda: {"only": {}})
    hints: dict[str, Any] = field(default_factory=dict)


THINKING_SWITCH = {"thinking": {"thinking": True}, "instant": {"thinking": False}}
ENABLE_SWITCH = {"thinking": {"enable_thinking": True}, "instant": {"enable_thinking": False}}

_KIMI_IDS = {
    "[BOS]": 163584,
    "[EOS]": 163585,
    "<|im_end|>": 163586,
    "<|im_user|>": 163587,
    "<|im_assistant|>": 163588,
    "<|start_header_id|>": 163590,
    "<|end_header_id|>": 163591,
    "[EOT]": 163593,
    "<|im_system|>": 163594,
    "<|tool_calls_section_begin|>": 163595,
    "<|tool_calls_section_end|>": 163596,
    "<|tool_call_begin|>": 163597,
    "<|tool_call_argument_begin|>": 163598,
    "<|tool_call_end|>": 163599,
    "<|im_middle|>": 163601,
    "<|media_begin|>": 163602,
    "<|media_pad|>": 163605,
    "<think>": 163606,
    "</think>": 163607,
    "[UNK]": 163838,
    "[PAD]": 163839,
}
_KIMI_BODY = """
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
<|im_system|>{{ m.name or 'tool' }}<|im_middle|>## Return of {{ m.tool_call_id }}
{{ m.content }}<|im_end|>
{%- elif m.role == 'assistant' -%}
<|im_assistant|>assistant<|im_middle|>THINK{{ m.content }}
{%- if m.tool_calls -%}<|tool_calls_section_begin|>
{%- for c in m.tool_calls -%}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>
{{- c.function.arguments | tojson }}<|tool_call_end|>{%- endfor -%}
<|tool_calls_section_end|>{%- endif -%}<|im_end|>
{%- else -%}
<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}<|im_end|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>TAIL{%- endif -%}
"""
_KIMI_WORDS = {"system": 14062, "user": 2482, "assistant": 69702}


def _kimi(name: str, think: str, tail: str, modes: dict[str, dict[str, Any]]) -> Family:
    return Family(
        name=name,
        special=_KIMI_IDS,
        template=_KIMI_BODY.replace("THINK", think).replace("TAIL", tail).strip(),
        words=_KIMI_WORDS,
        eos="[EOS]",
        bos="[BOS]",
        eos_ids=(163586,),
        vocab_size=163840,
        modes=modes,
    )


_DEEPSEEK_PLAIN = {
    "<｜User｜>": 128803,
    "<｜Assistant｜>": 128804,
    "<think>": 128798,
    "</think>": 128799,
    "<｜tool▁calls▁begin｜>": 128806,
    "<｜tool▁calls▁end｜>": 128807,
    "<｜tool▁call▁begin｜>": 128808,
    "<｜tool▁call▁end｜>": 128809,
    "<｜tool▁sep｜>": 128814,
}
_CHATML_LOOP = """
{%- for m in messages -%}
{%- if m.role == 'tool' -%}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else -%}<|im_start|>{{ m.role }}
{{ m.content }}{%- for c in m.tool_calls or [] -%}CALL{%- endfor -%}<|im_end|>
{% endif -%}
{%- endfor -%}
"""
_HERMES_CALL = """<tool_call>
{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}
</tool_call>"""
_XML_CALL = """<tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>
{{ v }}
</parameter>
{% endfor %}</function>
</tool_call>"""

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _kimi("kimi_k2", "", "", {"instant": {}}),
        _kimi("kimi_k2_thinking", "<think></think>", "", {"thinking": {}}),
        _kimi(
            "kimi_k25",
            "<think></think>",
            "<think>{% if thinking is defined and not thinking %}</think>{% endif %}",
            THINKING_SWITCH,
        ),
        Family(
            name="qwen3",
            special={
                "<|endoftext|>": 151643,
                "<|im_start|>": 151644,
                "<|im_end|>": 151645,
                "<|vision_start|>": 151652,
            },
            plain={
                "<tool_call>": 151657,
                "</tool_call>": 151658,
                "<tool_response>": 151665,
                "</tool_response>": 151666,
                "<think>": 151667,
                "</think>": 151668,
            },
            template=_CHATML_LOOP.strip().replace("CALL", _HERMES_CALL)
            + "{% if add_generation_prompt %}<|im_start|>assistant\n"
            "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
            "{% endif %}{% endif %}",
            eos="<|im_end|>",
            eos_ids=(151645, 151643),
            vocab_size=151936,
            modes=ENABLE_SWITCH,
        ),
        Family(
            name="qwen35",
            special={"<|endoftext|>": 248044, "<|im_start|>": 248045, "<|im_end|>": 248046},
            plain={
                "<tool_call>": 248058,
                "</tool_call>": 248059,
                "<tool_response>": 248066,
                "</tool_response>": 248067,
                "<think>": 248068,
                "</think>": 248069,
            },
            template=_CHATML_LOOP.strip().replace("CALL", _XML_CALL)
            + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
            eos="<|im_end|>",
            eos_ids=(248046, 248044),
            vocab_size=248320,
            modes={"thinking": {}},
        ),
        Family(
            name="deepseek_r1",
            special={"<｜begin▁of▁sentence｜>": 0, "<｜end▁of▁sentence｜>": 1},
            plain=_DEEPSEEK_PLAIN,
            template="<｜begin▁of▁sentence｜>"
            "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}"
            "{% endfor %}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
            "{% elif m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}"
            "{% if m.tool_calls %}<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}"
            "<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>"
            "{{ c.function.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}"
            "<｜tool▁calls▁end｜>{% endif %}<｜end▁of▁sentence｜>"
            "{% elif m.role == 'tool' %}{{ m.content }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt and messages[-1].role != 'tool' %}<｜Assistant｜>{% if "
            "thinking is defined and not thinking %}</think>{% else %}<think>\n{% endif %}"
            "{% endif %}",
            eos="<｜end▁of▁sentence｜>",
            bos="<｜begin▁of▁sentence｜>",
            eos_ids=(1,),
            vocab_size=129280,
            modes=THINKING_SWITCH,
        ),
        Family(
            name="deepseek_v32",
            special={"<｜begin▁of▁sentence｜>": 0, "<｜end▁of▁sentence｜>": 1},
            # The real id of its marker is in no table that we have.
            plain={**_DEEPSEEK_PLAIN, "｜DSML｜": 128815},
            template="<｜begin▁of▁sentence｜>"
            "{% if tools %}Tools: {{ tools | tojson }} Call them in <｜DSML｜function_calls>."
            "{% endif %}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
            "{% elif m.role == 'system' %}{{ m.content }}"
            "{% elif m.role == 'assistant' %}<｜Assistant｜></think>{{ m.content }}"
            "{% if m.tool_calls %}<｜DSML｜function_calls>{% for c in m.tool_calls %}"
            '<｜DSML｜invoke name="{{ c.function.name }}">'
            "{% for k, v in c.function.arguments.items() %}"
            '<｜DSML｜parameter name="{{ k }}" string="true">{{ v }}</｜DSML｜parameter>'
            "{% endfor %}</｜DSML｜invoke>{% endfor %}</｜DSML｜function_calls>{% endif %}"
            "<｜end▁of▁sentence｜>{% elif m.role == 'tool' %}<function_results>{{ m.content }}"
            "</function_results>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<｜Assistant｜>{% if "
            "thinking is defined and not thinking %}</think>{% else %}<think>{% endif %}"
            "{% endif %}",
            eos="<｜end▁of▁sentence｜>",
            bos="<｜begin▁of▁sentence｜>",
            eos_ids=(1,),
            vocab_size=129280,
            modes=THINKING_SWITCH,
        ),
        Family(
            name="glm45",
            special={
                "<|endoftext|>": 151329,
                "[gMASK]": 151331,
                "<sop>": 151333,
                "<|system|>": 151335,
                "<|user|>": 151336,
                "<|assistant|>": 151337,
                "<|observation|>": 151338,
            },
            plain={
                "<think>": 151350,
                "</think>": 151351,
                "<tool_call>": 151352,
                "</tool_call>": 151353,
            },
            template="[gMASK]<sop>{% for m in messages %}{% if m.role == 'tool' %}<|observation|>\n"
            "{{ m.content }}{% else %}<|{{ m.role }}|>\n{{ m.content }}"
            "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}\n"
            "{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
            "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}"
            "{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not "
            "enable_thinking %}\n<think></think>{% endif %}{% endif %}",
            eos="<|endoftext|>",
            eos_ids=(151329, 151336, 151338),
            vocab_size=151552,
            modes=ENABLE_SWITCH,
        ),
        Family(
            name="gpt_oss",
            special={
                "<|startoftext|>": 199998,
                "<|endoftext|>": 199999,
                "<|return|>": 200002,
                "<|constrain|>": 200003,
                "<|channel|>": 200005,
                "<|start|>": 200006,
                "<|end|>": 200007,
                "<|message|>": 200008,
                "<|call|>": 200012,
            },
            template="<|start|>system<|message|>Date: {{ strftime_now('%Y-%m-%d') }} Effort: "
            "{{ reasoning_effort or 'medium' }}<|end|>{% for m in messages %}<|start|>"
            "{% if m.role == 'tool' %}functions.{{ m.name }} to=assistant<|channel|>commentary"
            "<|message|>{{ m.content }}<|end|>{% elif m.tool_calls %}assistant<|channel|>commentary"
            " to=functions.look <|constrain|>json<|message|>{}<|call|>"
            "{% elif m.role == 'assistant' %}assistant<|channel|>final<|message|>{{ m.content }}"
            "<|end|>{% else %}{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|start|>assistant{% endif %}",
            words={"assistant": 173781, "analysis": 35644, "final": 17196},
            eos="<|return|>",
            eos_ids=(200002, 199999),
            vocab_size=201088,
            modes={"medium": {}, "low": {"reasoning_effort": "low"}},
        ),
        Family(
            name="minimax_m2",
            special={"]~!b[": 200034, "]~b]": 200019, "[e~[": 200020},
            plain={
                "<think>": 200050,
                "</think>": 200051,
                "<minimax:tool_call>": 200052,
                "</minimax:tool_call>": 200053,
            },
            template="]~!b[]~b]system\n"
            "{% if messages[0].role == 'system' %}{{ messages[0].content }}"
            "{% else %}You answer.{% endif %}[e~[\n{% for m in messages %}{% if m.role == 'user' %}"
            "]~b]user\n{{ m.content }}[e~[\n"
            "{% elif m.role == 'tool' %}]~b]tool\n{{ m.content }}[e~["
            "\n{% elif m.role == 'assistant' %}]~b]ai\n{{ m.content }}[e~[\n{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}]~b]ai\n<think>\n{% endif %}",
            eos="[e~[",
            bos="]~!b[",
            eos_ids=(200020,),
            vocab_size=200064,
            modes={"thinking": {}},
        ),
        Family(
            name="llama3",
            special={
                "<|begin_of_text|>": 128000,
                "<|end_of_text|>": 128001,
                "<|finetune_right_pad_id|>": 128004,
                "<|start_header_id|>": 128006,
                "<|end_header_id|>": 128007,
                "<|eom_id|>": 128008,
                "<|eot_id|>": 128009,
                "<|python_tag|>": 128010,
            },
            template="<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday Date: "
            "{{ strftime_now('%d %b %Y') }}\n\n{% if messages[0].role == 'system' %}"
            "{{ messages[0].content }}{% endif %}<|eot_id|>{% for m in messages %}"
            "{% if m.role != 'system' %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
            "{{ m.content }}<|eot_id|>{% endif %}{% endfor %}{% if add_generation_prompt %}"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
            eos="<|eot_id|>",
            bos="<|begin_of_text|>",
            eos_ids=(128001, 128009),
            vocab_size=128256,
            modes={"instant": {}},
        ),
        Family(
            name="smollm2",
            special={"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2},
            template="{% if messages[0].role != 'system' %}<|im_start|>system\n"
            "You help.<|im_end|>\n"
            "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
            "{{ m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
            eos="<|im_end|>",
            bos="<|im_start|>",
            eos_ids=(2,),
            vocab_size=49152,
            modes={"instant": {}},
        ),
    )
}
