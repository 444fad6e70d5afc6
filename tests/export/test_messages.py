"""`messages` and `sharegpt`: what the ids say, as text, and how much of it text keeps."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from datasets import load_dataset

from runner.export import Options
from runner.export.sharegpt import unfit
from runner.rundir import RunDir
from tests.export.conftest import Export, family_run, lines
from tests.runs.conftest import MakeRun, Spec
from tests.validators.corpus import LOOK, USER_THEN_CALL, Case
from tests.validators.make import prompt_of

CALLS = {
    "kimi_k25": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0"
    '<|tool_call_argument_begin|>{"at": "sky", "times": 2}<|tool_call_end|>'
    "<|tool_calls_section_end|><|im_end|>",
    "deepseek_r1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n"
    '```json\n{"at": "sky", "times": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    "<｜end▁of▁sentence｜>",
    "qwen3": '<tool_call>\n{"name": "look", "arguments": {"at": "sky", "times": 2}}\n</tool_call>'
    "<|im_end|>",
    "qwen35": "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n"
    "<parameter=times>\n2\n</parameter>\n</function>\n</tool_call><|im_end|>",
    "glm45": "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>sky</arg_value>\n"
    "<arg_key>times</arg_key>\n<arg_value>2</arg_value>\n</tool_call><|observation|>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="look">\n'
    '<parameter name="at">sky</parameter>\n<parameter name="times">2</parameter>\n'
    "</invoke>\n</minimax:tool_call>[e~[",
    "gpt_oss": "<|start|>assistant to=functions.look<|channel|>commentary<|message|>"
    '{"at": "sky", "times": 2}<|call|>',
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="look">\n'
    '<｜DSML｜parameter name="at" string="true">sky</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="times" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls><｜end▁of▁sentence｜>",
    "llama3": '{"name": "look", "parameters": {"at": "sky", "times": 2}}<|eot_id|>',
}
THINKING = {
    "kimi_k25": "Well.</think>It is 4.<|im_end|>",
    "qwen3": "<think>Well.</think>It is 4.<|im_end|>",
    "deepseek_r1": "Well.</think>It is 4.<｜end▁of▁sentence｜>",
    "glm45": "<think>Well.</think>It is 4.<|user|>",
    "gpt_oss": "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>final"
    "<|message|>It is 4.<|return|>",
    "minimax_m2": "Well.</think>It is 4.[e~[",
}
THOUGHT = {
    "kimi_k25": "Well.</think>",
    "deepseek_r1": "Well.</think>",
    "qwen35": "Well.</think>",
    "minimax_m2": "Well.</think>",
    "qwen3": "<think>Well.</think>",
    "glm45": "<think>Well.</think>",
    "gpt_oss": "<|channel|>analysis<|message|>Well.<|end|>",
    "deepseek_v32": "Well.</think>",
    "llama3": "",
}


def exported_rows(
    tmp_path: Path, exported: Export, family: str, *cases: Case, **more: Any
) -> tuple[list[dict[str, Any]], Any]:
    run = family_run(tmp_path / family, family, cases)
    manifest = exported(run, to="messages", **more)
    folder = tmp_path / "out" / "train"
    return lines(folder) if folder.exists() else [], manifest


@pytest.mark.parametrize("family", THINKING)
def test_reasoning_and_answer_are_apart(family: str, tmp_path: Path, exported: Export) -> None:
    (row,), _ = exported_rows(tmp_path, exported, family, Case(family, "", THINKING[family]))
    assert row["messages"][0]["content"] == "Hi"
    answer = row["messages"][-1]
    assert answer["role"] == "assistant"
    assert (answer["reasoning_content"], answer["content"]) == ("Well.", "It is 4.")
    assert "tool_calls" not in answer


@pytest.mark.parametrize("family", CALLS)
def test_tool_calls_are_openai_ones(family: str, tmp_path: Path, exported: Export) -> None:
    case = Case(family, "", THOUGHT[family] + CALLS[family], tools=(LOOK,))
    (row,), _ = exported_rows(tmp_path, exported, family, case)
    answer = row["messages"][-1]
    (call,) = answer["tool_calls"]
    assert call["type"] == "function"
    assert call["function"]["name"] == "look"
    assert json.loads(call["function"]["arguments"]) == {"at": "sky", "times": 2}
    assert json.loads(row["tools"]) == [LOOK]
    assert answer["reasoning_content"] == ("Well." if THOUGHT[family] else "")
    assert answer["content"] == "", "a call is told once"


def test_an_earlier_call_and_its_result_keep_their_places(tmp_path: Path, exported: Export) -> None:
    case = Case(
        "kimi_k25", "", "Well.</think>Blue.<|im_end|>", messages=USER_THEN_CALL, tools=(LOOK,)
    )
    (row,), _ = exported_rows(tmp_path, exported, "kimi_k25", case)
    user, calling, result, answer = row["messages"]
    assert calling["tool_calls"][0]["function"]["arguments"] == '{"at": "sky"}'
    assert (result["role"], result["tool_call_id"]) == ("tool", "functions.look:0")
    assert (user["content"], answer["content"]) == ("look twice", "Blue.")


def test_calls_that_no_message_can_hold_are_left_out_and_named(
    tmp_path: Path, exported: Export
) -> None:
    begin = "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0"
    bad_json = (
        f"{begin}<|tool_call_argument_begin|>{{sky<|tool_call_end|><|tool_calls_section_end|>"
    )
    cases = [
        Case("kimi_k25", "", f"a</think>{bad_json}<|im_end|>", tools=(LOOK,)),
        Case("kimi_k25", "", f"a</think>{begin}<|tool_call_argument_begin|>{{", cut=True),
    ]
    rows, manifest = exported_rows(tmp_path, exported, "kimi_k25", *cases)
    assert rows == []
    assert [line["reason"] for line in lines(tmp_path / "out" / "left_out.jsonl")] == [
        "unreadable_tool_call",
        "cut_in_tool_call",
    ]
    assert manifest.counts.left_out == 2


def test_the_round_trip_tells_what_the_template_loses(tmp_path: Path, exported: Export) -> None:
    """Qwen3's template writes blank lines around the reasoning, whatever the model wrote."""
    cases = [
        Case("qwen3", "", "<think>\nWell.\n</think>\n\nIt is 4.<|im_end|>"),
        Case("qwen3", "", "<think>Well.</think>It is 4.<|im_end|>"),
        Case("qwen3", "", "<think>\nWell.\n</think>\n\nIt is", cut=True),
    ]
    _, manifest = exported_rows(tmp_path, exported, "qwen3", *cases)
    trip = manifest.summary["round_trip"]["toy"]
    assert trip["compared"] == 3
    assert trip["altered"] >= 2
    assert trip["altered"] == trip["compared"] - trip.get("same", 0)
    assert manifest.words == [f"toy: text alters {trip['altered']} of 3 samples"]


def test_plain_answers_survive_and_cut_ones_do_not(tmp_path: Path, exported: Export) -> None:
    cases = [
        Case("smollm2", "", "It is 4.<|im_end|>"),
        Case("smollm2", "", "It is", cut=True),
    ]
    _, manifest = exported_rows(tmp_path, exported, "smollm2", *cases)
    assert manifest.summary["round_trip"]["toy"] == {
        "compared": 2,
        "altered": 1,
        "same": 1,
        "cut": 1,
    }


def test_a_prompt_that_is_not_there_is_named(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(0)])
    for path in run.prompts.iterdir():
        path.unlink()
    exported(run, to="messages")
    assert [line["reason"] for line in lines(tmp_path / "out" / "left_out.jsonl")] == [
        "prompt_not_found"
    ]


def test_the_list_may_have_the_name_that_others_want(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run([Spec(0)]), to="messages", options=Options(key="conversations"))
    (row,) = lines(tmp_path / "out" / "train")
    assert [turn["role"] for turn in row["conversations"]] == ["user", "assistant"]
    assert row["tools"] == "[]"


def test_datasets_reads_calls_that_come_late(tmp_path: Path, exported: Export) -> None:
    """It infers types from the first block: a key that comes up later would be refused."""
    cases = [Case("kimi_k25", "", "a</think>" + "word " * 900 + "<|im_end|>")] * 30
    late = Case("kimi_k25", "", "a</think>" + CALLS["kimi_k25"], tools=(LOOK,))
    turn = Case("kimi_k25", "", "a</think>b<|im_end|>", messages=USER_THEN_CALL, tools=(LOOK,))
    rows, _ = exported_rows(tmp_path, exported, "kimi_k25", *cases, late, turn)
    path = str(next((tmp_path / "out" / "train").iterdir()))
    loaded = load_dataset(
        "json", data_files=path, split="train", cache_dir=str(tmp_path / "c"), chunksize=20_000
    )
    assert len(loaded) == len(rows) == 32
    call = loaded[30]["messages"][-1]["tool_calls"][0]
    assert call["function"] == rows[30]["messages"][-1]["tool_calls"][0]["function"]
    assert loaded[31]["messages"][2]["tool_call_id"] == "functions.look:0"


def test_sharegpt_is_human_and_gpt_in_turn_with_the_think_marker_of_the_prompt(
    tmp_path: Path, exported: Export
) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "And?"},
    ]
    case = Case("kimi_k25", "", "Well.</think>Go.<|im_end|>", messages=turns)
    exported(family_run(tmp_path / "run", "kimi_k25", [case]), to="sharegpt")
    (row,) = lines(tmp_path / "out" / "train")
    assert row["conversations"] == [
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "Ho"},
        {"from": "human", "value": "And?"},
        {"from": "gpt", "value": "<think>Well.</think>Go."},
    ]


@pytest.mark.parametrize(
    ("messages", "tools", "reason"),
    [
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], (),
         "system_message"),
        ("Hi", (LOOK,), "tools"),
        (USER_THEN_CALL, (), "tools"),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], (),
         "turns_do_not_alternate"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], (), "not_plain_text"),
        ("Hi", (), ""),
    ],
)  # fmt: skip
def test_what_sharegpt_cannot_hold_has_a_reason(messages: Any, tools: Any, reason: str) -> None:
    assert unfit(prompt_of(messages, tools=tools)) == reason


def test_what_sharegpt_cannot_hold_is_named(make_run: MakeRun, tmp_path: Path, exported: Export):
    run: RunDir = make_run([Spec(0), Spec(1)])
    prompts = [json.loads(line) for line in _prompt_lines(run)]
    prompts[1]["messages"].insert(0, {"role": "system", "content": "Be brief."})
    _rewrite_prompts(run, prompts)
    manifest = exported(run, to="sharegpt")
    assert manifest.counts.exported == 1
    (line,) = lines(tmp_path / "out" / "left_out.jsonl")
    assert (line["sample_id"], line["reason"]) == ("B4-1-0", "system_message")


def _prompt_lines(run: RunDir) -> list[bytes]:
    from runner.shards import ShardReader

    return list(ShardReader(run.prompts).lines())


def _rewrite_prompts(run: RunDir, prompts: list[dict[str, Any]]) -> None:
    from runner.shards import ShardWriter

    for path in run.prompts.iterdir():
        path.unlink()
    with ShardWriter(run.prompts, keying=lambda line: ("", 0), fsync=False) as writer:
        for prompt in prompts:
            writer.put(msgspec.json.encode(prompt))
