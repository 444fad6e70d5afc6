"""A conversation that a model can be asked with, and the check that a row is one. Never guessed.

The row shape that needs no setting: {"messages": [...], "tools"?: [...], "answer"?: "..."} with
OpenAI's messages and function schemas. Every other shape comes through an adapter
(`runner.prompts.adapt`) and then through the same check.

What is kept as it is: right-to-left and other marks, two user turns in a row (a template that
refuses them gives the skip reason `template`), empty system and tool texts. What is skipped, with a
reason: see `REASONS`.
"""

import hashlib
from typing import Any

import msgspec

from runner.records import Record

ROLES = frozenset({"system", "user", "assistant", "tool"})
MAX_TEXT_BYTES = 2_000_000
"""A conversation longer than this is a broken row (an embedded file), not a prompt."""

REASONS = {
    "not_json": "the row cannot be parsed",
    "not_an_object": "the row is no JSON object",
    "no_messages": "no list of messages, or an empty one",
    "bad_message": "a message is no object",
    "unknown_role": "a role that is none of system, user, assistant, tool",
    "null_content": "a turn without content (an assistant turn with tool calls may have none)",
    "bad_content": "content that is no text (images, numbers)",
    "bad_tool_call": "a tool call without a name, or with arguments that are no JSON object",
    "bad_tools": "tools that are no function schemas",
    "system_in_the_middle": "a system turn after another turn",
    "starts_with_assistant": "the assistant speaks first: the beginning is missing",
    "no_user_turn": "nobody asks anything",
    "no_turn_to_ask": "the turn policy finds no assistant turn to write anew",
    "empty_last_turn": "the last user turn holds no text",
    "nul_byte": "text with NUL bytes: a damaged row",
    "not_text": "text that cannot be written as UTF-8 (lone surrogates)",
    "too_big": f"more than {MAX_TEXT_BYTES:,} bytes",
    "wrong_shape": "a column holds something else than the adapter reads",
    "filtered": "the part's filters leave it out",
    "duplicate": "the same messages and tools as another prompt (prompts.duplicates=drop)",
    "excluded": "on an exclusion list (prompts.exclude)",
    "special_token_text": "text of a control token (prompts.special_tokens=refuse)",
    "template": "the chat template refused the conversation",
    "not_ids": "the tokenizer gave something else than ids",
    "over_context": "no room for the answer beside the prompt in the context",
    "too_long": "more tokens than the part's max_prompt_tokens",
}
"""Every reason for which a row is skipped in planning, in words."""


class Conversation(Record, frozen=True, kw_only=True):
    """What one row asks. `prompt_hash` is a hash of messages and tools only, in canonical form, so
    that it survives key order, a new answer column and another tokenizer. `turn` is the ordinal of
    the assistant turn that the model writes anew (0 unless the policy asks for each one); `id` is
    what the data set itself calls the row, for exclusion lists."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    answer: str = ""
    turn: int = 0
    id: str = ""

    @property
    def prompt_hash(self) -> str:
        content = msgspec.json.encode([self.messages, self.tools], order="sorted")
        return hashlib.sha256(content).hexdigest()[:32]


class RowFault(Exception):
    """A row that cannot become a prompt, or one turn of it. `reason` is counted, `detail` is for a
    person."""

    def __init__(self, reason: str, detail: str, *, turn: int = 0) -> None:
        self.reason, self.detail, self.turn = reason, detail, turn
        super().__init__(f"{reason}: {detail}")


def check(conversation: Conversation) -> Conversation:
    """The conversation itself, known to be one that a template can be given.

    Raises:
        RowFault: for the first thing that is wrong (`REASONS`).
    """
    messages = conversation.messages
    if not messages:
        raise RowFault("no_messages", "the list of messages is empty")
    for position, message in enumerate(messages):
        _check_message(message, position)
    _check_order(messages)
    if not all(_is_tool(tool) for tool in conversation.tools):
        raise RowFault("bad_tools", "`tools` must be a list of {type: function, function: {name}}")
    _check_text(conversation)
    return conversation


def check_asks(conversation: Conversation) -> Conversation:
    """The conversation, known to end where the model speaks next. Raises RowFault."""
    last = conversation.messages[-1]
    if last["role"] not in ("user", "tool"):
        raise RowFault("no_turn_to_ask", f"it ends with the {last['role']}'s turn")
    if last["role"] == "user" and not text_of(last).strip():
        # An empty user turn sends thinking models into endless thought.
        raise RowFault("empty_last_turn", "the last user turn holds no text")
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
    if not isinstance(role, str) or role not in ROLES:
        raise RowFault("unknown_role", f"message {position} has role {role!r:.60}")
    content = message.get("content")
    calls = message.get("tool_calls")
    if content is None and not (role == "assistant" and calls):
        raise RowFault("null_content", f"message {position} ({role}) has no content")
    if content is not None and not isinstance(content, str):
        raise RowFault("bad_content", f"message {position} has {type(content).__name__} content")
    if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
        raise RowFault("bad_tool_call", f"message {position} has a tool call without a name")


def _check_order(messages: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in messages]
    spoken = roles[1:] if roles[0] == "system" else roles
    if "system" in spoken:
        position = len(roles) - len(spoken) + spoken.index("system")
        raise RowFault("system_in_the_middle", f"message {position} is a system turn")
    if "user" not in spoken:
        raise RowFault("no_user_turn", f"roles: {', '.join(roles[:8])}")
    if spoken[0] != "user":
        raise RowFault("starts_with_assistant", f"the first turn is the {spoken[0]}'s")


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return False
    name = function.get("name")
    return isinstance(name, str) and bool(name)


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _check_text(conversation: Conversation) -> None:
    try:
        text = msgspec.json.encode([conversation.messages, conversation.tools])
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
        raise RowFault("not_text", f"the row cannot be written as UTF-8 JSON: {error}") from None
    if len(text) > MAX_TEXT_BYTES:
        raise RowFault("too_big", f"{len(text):,} bytes of text; {MAX_TEXT_BYTES:,} at most")
    if b"\\u0000" in text and _has_nul([conversation.messages, conversation.tools]):
        raise RowFault("nul_byte", "a text holds NUL bytes")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(k) or _has_nul(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))
