"""`sharegpt`: EAGLE's own text form, `{"id", "conversations": [{"from", "value"}], "metadata"}`.

Its trainer knows only human and gpt in turn, begins with human, brings a system prompt of its own
and has no tools: a conversation that is more than that is left out and named. A gpt turn is the
text as the model wrote it, think markers included; earlier turns are the prompt's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runner.export.conversation import inline_text
from runner.export.item import Item
from runner.export.jsonlines import JsonLines, LineWriter
from runner.records import Prompt

_ROLES = ("user", "assistant")
_NAMES = {"user": "human", "assistant": "gpt"}


class ShareGpt(JsonLines):
    """See the module."""

    name = "sharegpt"
    bytes_per_token = 5.0
    holds_ids = False

    def open(self, path: Path) -> LineWriter:
        return LineWriter(path, encode)


def encode(item: Item) -> bytes | str:
    """The line of a sample, or why this form cannot hold it."""
    prompt = item.prompt()
    if prompt is None:
        return "prompt_not_found"
    if fault := unfit(prompt):
        return fault
    turns = [
        {"from": _NAMES[message["role"]], "value": message["content"]}
        for message in prompt.messages
    ]
    answer = {"from": "gpt", "value": inline_text(item)}
    return msgspec.json.encode(
        {"id": item.id, "conversations": [*turns, answer], "metadata": item.metadata}
    )


def unfit(prompt: Prompt) -> str:
    """Why this form cannot hold the prompt, "" if it can."""
    messages: Sequence[dict[str, Any]] = prompt.messages
    if prompt.tools or any(m.get("role") == "tool" or m.get("tool_calls") for m in messages):
        return "tools"
    if any(m.get("role") == "system" for m in messages):
        return "system_message"
    expected = [_ROLES[place % 2] for place in range(len(messages))]
    if [m.get("role") for m in messages] != expected or expected[-1:] != ["user"]:
        return "turns_do_not_alternate"
    return "" if all(isinstance(m.get("content"), str) for m in messages) else "not_plain_text"
