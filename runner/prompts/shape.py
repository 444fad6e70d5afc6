"""A row of any source to a conversation, or a reason why it cannot be one. Never guessed.

The row shape that needs no setting: {"messages": [...], "tools"?: [...], "answer"?: "..."} with
OpenAI's messages and function schemas.
"""

import hashlib
from typing import Any

import msgspec

from runner.records import Record

ROLES = frozenset({"system", "user", "assistant", "tool"})
MAX_TEXT_CHARS = 2_000_000
"""A conversation longer than this is a broken row (an embedded file), not a prompt."""


class Conversation(Record, frozen=True, kw_only=True):
    """What one row asks. `prompt_hash` is a hash of messages and tools only, in canonical form, so
    that it survives key order, a new answer column and another tokenizer."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    answer: str = ""

    @property
    def prompt_hash(self) -> str:
        content = msgspec.json.encode([self.messages, self.tools], order="sorted")
        return hashlib.sha256(content).hexdigest()[:32]


class RowFault(Exception):
    """A row that cannot become a prompt. `reason` is counted, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


def conversation_of(row: Any) -> Conversation:
    """Check one row and give it as a conversation.

    Raises:
        RowFault: not an object, no messages, an unknown role, an empty last user turn, text that
            is no text (lone surrogates), a tool call without a name, tools that are no schemas.
    """
    if not isinstance(row, dict):
        raise RowFault("not_an_object", f"a row is a JSON object, this is {type(row).__name__}")
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        columns = ", ".join(map(str, row)) or "none"
        raise RowFault("no_messages", f"no list `messages` in this row; its columns: {columns}")
    for position, message in enumerate(messages):
        _check_message(message, position)
    if messages[-1]["role"] == "assistant":
        raise RowFault("ends_with_assistant", "the last message is the assistant's own")
    if messages[-1]["role"] == "user" and not text_of(messages[-1]).strip():
        raise RowFault("empty_last_turn", "the last user turn holds no text")
    tools = row.get("tools") or []
    if not isinstance(tools, list) or not all(_is_tool(tool) for tool in tools):
        raise RowFault("bad_tools", "`tools` must be a list of {type: function, function: {name}}")
    answer = row.get("answer")
    conversation = Conversation(
        messages=messages, tools=tools, answer="" if answer is None else str(answer)
    )
    _check_text(conversation)
    return conversation


def text_of(message: dict[str, Any]) -> str:
    """The text of a message: a string, or the text parts of a list; "" for null."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return content if isinstance(content, str) else ""


def _check_message(message: Any, position: int) -> None:
    if not isinstance(message, dict):
        raise RowFault("bad_message", f"message {position} is no object")
    role = message.get("role")
    if role not in ROLES:
        raise RowFault("unknown_role", f"message {position} has role {role!r}")
    content = message.get("content")
    calls = message.get("tool_calls")
    if content is None and not (role == "assistant" and calls):
        raise RowFault("null_content", f"message {position} ({role}) has no content")
    if content is not None and not isinstance(content, str | list):
        raise RowFault("bad_content", f"message {position} has {type(content).__name__} content")
    if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
        raise RowFault("bad_tool_call", f"message {position} has a tool call without a name")


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and bool(function.get("name"))


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _check_text(conversation: Conversation) -> None:
    try:
        size = len(msgspec.json.encode([conversation.messages, conversation.tools]))
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise RowFault("not_text", f"the row cannot be written as UTF-8 JSON: {error}") from None
    if size > MAX_TEXT_CHARS:
        raise RowFault("too_big", f"{size:,} bytes of text; {MAX_TEXT_CHARS:,} at most")
