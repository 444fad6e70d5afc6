"""Glaive's function-calling rows: a whole conversation in two strings.

    system   SYSTEM: You are a helpful assistant with access to the following functions. Use them
             if required -  { "name": ..., "parameters": {...} } { ... }
    chat     USER: ... <|endoftext|> ASSISTANT: <functioncall> {"name": ..., "arguments": '{...}'}
             <|endoftext|> FUNCTION RESPONSE: {...} ASSISTANT: ... <|endoftext|>

The functions become `tools`, and what is left of the system text stays one; the assistant's calls
become `tool_calls`. A text between two markers belongs to the first; a marker counts only at the
beginning of the text or of a line or after `<|endoftext|>`.
"""

import json
import re
from typing import Any

from runner.prompts.adapters import answer_of
from runner.prompts.cells import Columns, Row, text_cell
from runner.prompts.shape import Conversation, RowFault
from runner.prompts.tooltext import calls_of, count_calls, last_call_ids, tool_of

_MARKER = re.compile(r"(?:\A|\n|<\|endoftext\|>)\s*(USER|ASSISTANT|FUNCTION RESPONSE):")
_END = "<|endoftext|>"
_CALL = "<functioncall>"
_WITH_FUNCTIONS = re.compile(
    r"with access to the following functions\. Use them if required\s*-\s*", re.IGNORECASE
)


def from_glaive(row: Row, columns: Columns) -> Conversation:
    """See the module. Raises RowFault."""
    system, tools = _system(text_cell(row, columns, "system", required=False))
    messages: list[dict[str, Any]] = []
    if system:
        messages.append({"role": "system", "content": system})
    for marker, text in _turns(text_cell(row, columns, "chat")):
        messages.append(_turn(marker, text, messages))
    return Conversation(messages=messages, tools=tools, answer=answer_of(row, columns))


def _system(text: str) -> tuple[str, list[dict[str, Any]]]:
    text = text.strip().removeprefix("SYSTEM:").strip()
    found = _WITH_FUNCTIONS.search(text)
    if found is None:
        return text, []
    before = text[: found.start()].strip().rstrip(",")
    return f"{before}." if before and before[-1] not in ".!?" else before, _schemas(
        text[found.end() :]
    )


def _schemas(text: str) -> list[dict[str, Any]]:
    """JSON objects one after another, with nothing between them but white space."""
    decoder, position, tools = json.JSONDecoder(), 0, []
    text = text.strip()
    while position < len(text):
        try:
            schema, position = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            raise RowFault("bad_tools", f"a function in the system text: {error}") from None
        tools.append(tool_of(schema))
        while position < len(text) and (text[position].isspace() or text[position] == ","):
            position += 1
    return tools


def _turns(chat: str) -> list[tuple[str, str]]:
    found = list(_MARKER.finditer(chat))
    if not found or chat[: found[0].start()].strip():
        raise RowFault("wrong_shape", "the chat does not begin with USER: or ASSISTANT:")
    ends = [m.start() for m in found[1:]] + [len(chat)]
    return [
        (m[1], chat[m.end() : end].replace(_END, "").strip())
        for m, end in zip(found, ends, strict=True)
    ]


def _turn(marker: str, text: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    if marker == "USER":
        return {"role": "user", "content": text}
    if marker == "ASSISTANT":
        said, called, call = text.partition(_CALL)
        message: dict[str, Any] = {"role": "assistant", "content": said.strip()}
        if called:
            message["tool_calls"] = calls_of(call.strip(), count_calls(before))
        return message
    answer = {"role": "tool", "content": text}
    if open_ids := last_call_ids(before):
        answer["tool_call_id"] = open_ids[0]
    return answer
