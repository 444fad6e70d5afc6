"""Each shape, row by row: what is asked, with which tools, and what is known of the answer."""

import json
from typing import Any

import pytest

from runner.config import TurnPolicy
from runner.errors import ConfigError
from runner.prompts.adapt import ADAPTERS, AUTO, columns_of, settle
from runner.prompts.shape import Conversation, RowFault
from tests.prompts import rows

LAST = TurnPolicy.last_user


def prompts(
    row: Any, adapter: str = AUTO, turns: TurnPolicy = LAST, **columns: str | None
) -> list[Conversation]:
    settled = settle(adapter, columns, turns, columns_of([row]), where="source")
    return list(settled.prompts(row))


def one(row: Any, adapter: str = AUTO, **columns: str | None) -> Conversation:
    (prompt,) = prompts(row, adapter, **columns)
    return prompt


def roles(prompt: Conversation) -> list[str]:
    return [message["role"] for message in prompt.messages]


@pytest.mark.parametrize(
    ("row", "adapter"),
    [
        (rows.GLAIVE[0], "glaive"),
        (rows.MAGICODER[0], "instruction"),
        (rows.THOUGHTS[0], "messages"),
        (rows.OPEN_THOUGHTS[0], "sharegpt"),
        (rows.SHAREGPT[0], "sharegpt"),
        (rows.TRAJECTORIES[0], "trajectory"),
        ({"problem": "1+1?", "answer": "2"}, "problem"),
        ({"question": "1+1?", "answer": "2"}, "question"),
        ({"prompt": "Hi", "response": "Hello"}, "prompt"),
    ],
)
def test_auto_knows_the_shape_by_its_columns(row: dict[str, Any], adapter: str) -> None:
    assert settle(AUTO, {}, LAST, columns_of([row]), where="source").adapter == adapter


def test_glaive() -> None:
    prompt = one(rows.GLAIVE[0])
    assert roles(prompt) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [t["function"]["name"] for t in prompt.tools] == ["get_tide", "convert"]
    assert prompt.messages[0]["content"] == "You are a helpful assistant."
    (call,) = prompt.messages[2]["tool_calls"]
    assert call["id"] == "functions.get_tide:0"
    assert call["function"] == {"name": "get_tide", "arguments": {"harbour": "Whitby"}}
    assert prompt.messages[3] == {
        "role": "tool",
        "content": '{"time": "14:20", "metres": 5.1}',
        "tool_call_id": "functions.get_tide:0",
    }
    assert prompt.messages[-1]["content"] == "And in feet?"


def test_glaive_without_functions() -> None:
    prompt = one(rows.GLAIVE[1])
    assert prompt.tools == []
    assert prompt.messages[0]["content"].endswith("no access to external functions.")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chat": "hello"}, "wrong_shape"),
        ({"chat": None}, "null_content"),
        ({"chat": "USER: a\n\nASSISTANT: <functioncall> {\"arguments\": {}}"}, "bad_tool_call"),
        ({"chat": "USER: a\n\nASSISTANT: <functioncall> {not json"}, "bad_tool_call"),
        ({"system": "SYSTEM: x with access to the following functions. Use them if required - {"},
         "bad_tools"),
        ({"chat": "ASSISTANT: I begin"}, "no_user_turn"),
        ({"chat": "ASSISTANT: I begin\n\nUSER: no"}, "starts_with_assistant"),
    ],
)  # fmt: skip
def test_glaive_rows_that_are_skipped(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        prompts({**rows.GLAIVE[0], **change}, "glaive")
    assert caught.value.reason == reason


def test_a_marker_inside_a_line_is_text() -> None:
    prompt = one({"system": "", "chat": "USER: what does USER: mean?\n\nASSISTANT: x"})
    assert prompt.messages == [{"role": "user", "content": "what does USER: mean?"}]


def test_prompt_and_response_in_other_columns() -> None:
    prompt = one(rows.OPENCODE[0], "prompt", prompt="input", id="id")
    assert prompt.messages[0]["content"].startswith("Write a function")
    assert prompt.id == f"{1:032x}"


def test_instruction_with_input_below() -> None:
    prompt = one({"instruction": "Sum up.", "input": "A text.", "output": "x"})
    assert prompt.messages == [{"role": "user", "content": "Sum up.\n\nA text."}]
    assert one({"instruction": "Sum up.", "input": ""}).messages[0]["content"] == "Sum up."


@pytest.mark.parametrize("answer", ["4", 4])
def test_a_reference_answer_is_kept(answer: Any) -> None:
    assert one({"problem": "2+2?", "answer": answer}).answer == "4"


def test_the_answer_is_not_part_of_the_prompts_hash() -> None:
    hashes = {one({"problem": "2+2?", "answer": a}).prompt_hash for a in ("4", "5")}
    assert len(hashes) == 1


def test_inline_reasoning_of_earlier_turns_goes_where_templates_look_for_it() -> None:
    row = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb"},
            {"role": "user", "content": "c"},
        ]
    }
    assert one(row).messages[1] == {
        "role": "assistant",
        "content": "b",
        "reasoning_content": "hm",
    }
    thoughts = {"conversations": [*rows.OPEN_THOUGHTS[0]["conversations"],
                                  {"from": "user", "value": "why?"}]}  # fmt: skip
    assert one(thoughts).messages[1] == {
        "role": "assistant", "content": "no", "reasoning_content": "hm",
    }  # fmt: skip


def test_a_system_column_can_be_left_out() -> None:
    assert roles(one(rows.OPEN_THOUGHTS[0])) == ["system", "user"]
    assert roles(one(rows.OPEN_THOUGHTS[0], system=None)) == ["user"]


def test_hermes_tags_become_calls_and_tool_turns() -> None:
    (prompt,) = prompts(rows.HERMES[0], turns=TurnPolicy.each_assistant_turn)[1:]
    assert roles(prompt) == ["system", "user", "assistant", "tool", "tool"]
    calls = prompt.messages[2]["tool_calls"]
    assert [c["id"] for c in calls] == ["functions.tide:0", "functions.tide:1"]
    assert [m["tool_call_id"] for m in prompt.messages[3:]] == [c["id"] for c in calls]
    assert prompt.messages[3]["content"] == "7:00"
    assert prompt.tools[0]["function"]["name"] == "tide"


def test_the_llama_factory_dialect() -> None:
    row = {
        "conversations": [
            {"from": "human", "value": "Tide?"},
            {"from": "function_call", "value": '{"name": "tide", "arguments": {"at": "Hull"}}'},
            {"from": "observation", "value": "7:00"},
            {"from": "gpt", "value": "At 7:00"},
        ],
        "tools": '[{"name": "tide", "description": "d", "parameters": {}}]',
        "system": "Be short.",
    }
    prompt = prompts(row, turns=TurnPolicy.each_assistant_turn)[1]
    assert roles(prompt) == ["system", "user", "assistant", "tool"]
    assert prompt.messages[3]["tool_call_id"] == "functions.tide:0"
    assert prompt.tools[0] == {"type": "function", "function": json.loads(row["tools"])[0]}


def test_columns_that_hold_json_in_a_string() -> None:
    plain = {"messages": [{"role": "user", "content": "a"}], "tools": rows.HERMES[0]["tools"]}
    packed = {**plain, "messages": json.dumps(plain["messages"])}
    assert one(packed) == one(plain)
    assert one(packed).tools[0]["function"]["name"] == "tide"


def test_a_list_of_objects_that_a_table_turned_round() -> None:
    row = {"conversations": {"from": ["human", "gpt"], "value": ["a", "b"]}}
    assert one(row).messages == [{"role": "user", "content": "a"}]


def test_openai_old_and_new() -> None:
    row = {
        "messages": [
            {"role": "developer", "content": "Be short."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, "b"]},
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            {"role": "function", "name": "f", "content": "1"},
        ]
    }
    prompt = one(row)
    assert roles(prompt) == ["system", "user", "assistant", "tool"]
    assert prompt.messages[1]["content"] == "ab"
    assert prompt.messages[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_reasoning_that_a_row_has_apart_stays_as_it_is() -> None:
    message = {"role": "assistant", "content": "<think>x</think>y", "reasoning_content": "z"}
    row = {
        "messages": [{"role": "user", "content": "a"}, message, {"role": "user", "content": "b"}]
    }
    assert one(row).messages[1] == message


def test_a_trajectory_gives_a_prompt_for_each_step_of_the_agent() -> None:
    given = prompts(rows.TRAJECTORIES[0], turns=TurnPolicy.each_assistant_turn, id="instance_id")
    assert [roles(p) for p in given] == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
    ]
    assert [p.turn for p in given] == [0, 1]
    assert given[0].messages[0]["content"] == "SETTING: a shell."
    assert given[0].id == "tidecalc__tidecalc-0"


@pytest.mark.parametrize(
    ("policy", "lengths"),
    [
        (TurnPolicy.last_user, [3]),
        (TurnPolicy.first_user, [1]),
        (TurnPolicy.each_assistant_turn, [1, 3]),
    ],
)
def test_turn_policies(policy: TurnPolicy, lengths: list[int]) -> None:
    assert [len(p.messages) for p in prompts(rows.ULTRACHAT[0], turns=policy)] == lengths


def test_a_conversation_that_ends_with_a_tools_answer_is_taken_whole() -> None:
    row = {"messages": prompts(rows.HERMES[0], turns=TurnPolicy.each_assistant_turn)[1].messages}
    assert len(one(row).messages) == 5
    assert [p.turn for p in prompts(row, turns=TurnPolicy.each_assistant_turn)] == [0, 1]


@pytest.mark.parametrize("adapter", [name for name in ADAPTERS if name != "messages"])
def test_a_wrong_column_lists_those_that_exist(adapter: str) -> None:
    word = next(iter(ADAPTERS[adapter].required))
    with pytest.raises(ConfigError) as caught:
        settle(adapter, {word: "nonsense"}, LAST, ["one", "two"], where="source")
    assert caught.value.allowed == "one, two"
    assert caught.value.where == f"source.columns.{word}"


def test_a_default_column_that_is_not_there_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="one, two"):
        settle("messages", {}, LAST, ["one", "two"], where="source")


def test_no_adapter_fits_says_what_each_needs() -> None:
    with pytest.raises(ConfigError, match="conversations") as caught:
        settle(AUTO, {}, LAST, ["text"], where="source")
    assert "columns text" in caught.value.found


def test_a_word_that_the_adapter_does_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="reads nothing of this name"):
        settle("prompt", {"promt": "x"}, LAST, ["prompt", "x"], where="source")


def test_an_unknown_adapter_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="sharegpt"):
        settle("share_gpt", {}, LAST, ["conversations"], where="source")
