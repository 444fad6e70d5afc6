"""Ill-formed rows are skipped with a reason, never guessed; odd ones that are kept have a rule."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config import TurnPolicy
from runner.prompts.adapt import ADAPTERS, Adaptation
from runner.prompts.shape import MAX_TEXT_BYTES, REASONS, Conversation, RowFault

USER = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Hello"}


def adaptation(name: str, turns: TurnPolicy = TurnPolicy.last_user) -> Adaptation:
    adapter = ADAPTERS[name]
    return Adaptation(adapter=name, columns={**adapter.required, **adapter.optional}, turns=turns)


def reason_of(row: Any, name: str = "messages") -> str:
    with pytest.raises(RowFault) as caught:
        list(adaptation(name).prompts(row))
    assert caught.value.reason in REASONS
    assert caught.value.detail
    return caught.value.reason


def calling(**function: Any) -> list[dict[str, Any]]:
    call = {"type": "function", "function": function}
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, USER]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "no_messages"),
        (None, "no_messages"),
        ("", "no_messages"),
        ("not json", "wrong_shape"),
        (7, "wrong_shape"),
        (["text"], "bad_message"),
        ([{"role": "user", "content": None}], "null_content"),
        ([{"role": "user"}], "null_content"),
        ([{"role": "user", "content": 5}], "bad_content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "bad_content"),
        ([{"role": "wizard", "content": "x"}], "unknown_role"),
        ([{"role": None, "content": "x"}], "unknown_role"),
        ([{"role": ["user"], "content": "x"}], "unknown_role"),
        ([USER, SAID, {"role": "system", "content": "x"}, USER], "system_in_the_middle"),
        ([SAID, USER], "starts_with_assistant"),
        ([SAID], "no_user_turn"),
        ([{"role": "system", "content": "x"}], "no_user_turn"),
        ([{"role": "user", "content": " \n "}], "empty_last_turn"),
        ([{"role": "user", "content": ""}, SAID], "empty_last_turn"),
        ([{"role": "user", "content": "a\0b"}], "nul_byte"),
        ([{"role": "user", "content": "a\ud800b"}], "not_text"),
        ([{"role": "user", "content": "x" * (MAX_TEXT_BYTES + 1)}], "too_big"),
        (calling(arguments={}), "bad_tool_call"),
        (calling(name="", arguments={}), "bad_tool_call"),
        (calling(name=None, arguments={}), "bad_tool_call"),
        (calling(name="f", arguments=[1]), "bad_tool_call"),
        (calling(name="f", arguments="{not json"), "bad_tool_call"),
    ],
)
def test_messages_that_are_skipped(messages: Any, reason: str) -> None:
    assert reason_of({"messages": messages}) == reason


@pytest.mark.parametrize("row", [5, "text", None, ["messages"]])
def test_a_row_that_is_no_object(row: Any) -> None:
    assert reason_of(row) == "not_an_object"


@pytest.mark.parametrize("tools", ["[{}]", [5], [{"description": "nameless"}], "{not json"])
def test_tools_that_are_no_schemas(tools: Any) -> None:
    assert reason_of({"messages": [USER], "tools": tools}) in ("bad_tools", "wrong_shape")


def test_a_null_column_and_a_wrong_type() -> None:
    assert reason_of({"prompt": None}, "prompt") == "null_content"
    assert reason_of({"prompt": ["x"]}, "prompt") == "wrong_shape"
    assert (
        reason_of({"conversations": [{"from": "gpt", "value": None}]}, "sharegpt") == "null_content"
    )
    assert (
        reason_of({"conversations": [{"from": "owl", "value": "hu"}]}, "sharegpt") == "unknown_role"
    )


@pytest.mark.parametrize("role", [["ai"], {"ai": 1}, None, 7, "wizard"])
@pytest.mark.parametrize("name", ["messages", "sharegpt", "trajectory"])
def test_a_role_that_is_none_in_every_shape(name: str, role: Any) -> None:
    turn = {"role": role, "from": role, "content": "x", "value": "x", "text": "x"}
    column = next(iter(ADAPTERS[name].required))
    assert reason_of({column: [turn]}, name) == "unknown_role"


def test_an_empty_step_of_a_trajectory_is_kept_and_a_null_one_is_not() -> None:
    def row(text: str | None) -> dict[str, Any]:
        steps = [("user", "a"), ("ai", text), ("user", "b")]
        return {"trajectory": [{"role": role, "text": said} for role, said in steps]}

    (prompt,) = adaptation("trajectory").prompts(row(""))
    assert prompt.messages[1] == {"role": "assistant", "content": ""}
    assert reason_of(row(None), "trajectory") == "null_content"


@pytest.mark.parametrize(
    "messages",
    [
        [USER, USER],
        [{"role": "user", "content": "\u200fשלום\u202e"}],
        [{"role": "system", "content": ""}, USER],
        [USER, {"role": "assistant", "content": ""}, USER],
        [{"role": "user", "content": "\ufeffBOM and \u2028 separators"}],
    ],
    ids=["two user turns", "right-to-left marks", "empty system", "empty answer", "separators"],
)
def test_odd_conversations_that_are_kept_as_they_are(messages: list[dict[str, Any]]) -> None:
    (prompt,) = adaptation("messages").prompts({"messages": messages})
    assert prompt.messages == messages


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["messages", "role", "content", "from", "value", "tool_calls", "function", "name",
             "arguments", "chat", "system", "trajectory", "text", "tools", "prompt",
             "conversations"]
        ),
        inner | st.sampled_from(["user", "assistant", "system", "tool", "human", "gpt", "ai"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(row=JSON, name=st.sampled_from(sorted(ADAPTERS)), turns=st.sampled_from(list(TurnPolicy)))
def test_any_row_gives_prompts_or_a_known_reason(row: Any, name: str, turns: TurnPolicy) -> None:
    try:
        prompts = list(adaptation(name, turns).prompts(row))
    except RowFault as fault:
        prompts, reason = [], fault.reason
    else:
        reason = ""
        assert all(isinstance(p, Conversation) or p.reason in REASONS for p in prompts)
    assert bool(prompts) is not bool(reason)
    assert reason == "" or reason in REASONS
    asked = [p for p in prompts if isinstance(p, Conversation)]
    assert all(p.messages[-1]["role"] in ("user", "tool") for p in asked)
