"""One training or held-out example, in messages: the template, not this code, makes its ids."""

from dataclasses import dataclass, field, replace
from typing import Any

Message = dict[str, Any]
Schema = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """A prompt and the reply that is right for it.

    `answer` is what the content must hold to be counted right (none: only the structure is
    judged); tool calls, when the reply has them, are judged by name and arguments.
    """

    kind: str
    messages: list[Message]
    reply: Message
    tools: list[Schema] = field(default_factory=list)
    answer: str | None = None
    thinking: bool = True

    def instant(self) -> "Example":
        """The same example in instant mode: no reasoning; worked steps move into the content."""
        reply = dict(self.reply)
        reasoning = reply.pop("reasoning_content", "")
        if self.kind in WORKED_KINDS:
            reply["content"] = f"{reasoning} {reply['content']}"
        return replace(self, reply=reply, thinking=False)


# Kinds whose result cannot be guessed without steps, so that instant replies show them.
WORKED_KINDS = frozenset(
    {"bare", "word", "two_step", "compare", "units", "rate", "sequence", "order", "perimeter"}
)


def user(text: str) -> Message:
    """A user message."""
    return {"role": "user", "content": text}


def said(reasoning: str, content: str) -> Message:
    """An assistant reply without tool calls."""
    return {"role": "assistant", "reasoning_content": reasoning, "content": content}


def called(reasoning: str, calls: list[tuple[str, str, dict[str, Any]]], content: str) -> Message:
    """An assistant reply with tool calls, given as (id, name, arguments)."""
    return {
        "role": "assistant",
        "reasoning_content": reasoning,
        "content": content,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }
