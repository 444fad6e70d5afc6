"""Tool schemas and tool calls in the forms in which data sets write them, to OpenAI's form.

    a bare function        {"name", "description", "parameters"} -> {"type", "function": {...}}
    a call in a string     '{"name": ..., "arguments": {...}}' -> {"id", "type", "function"}
    tagged calls           <tool_call>{...}</tool_call> in the assistant's text (Hermes)

Arguments stay as the data set has them (an object or a JSON string): templates take both. A call
gets the id `functions.NAME:INDEX` when it has none, INDEX counted through the conversation.
"""

import re
from typing import Any

import msgspec

from runner.prompts.cells import parsed
from runner.prompts.shape import RowFault

_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_ANSWERED = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_PYTHON_ARGUMENTS = re.compile(r"'(\{.*\})'\s*\}\s*$", re.DOTALL)


def tools_of(value: Any) -> list[dict[str, Any]]:
    """The `tools` of a row: a list of schemas, one schema, JSON in a string, or nothing.

    Raises:
        RowFault: something that is no function schema.
    """
    if isinstance(value, str):
        value = parsed(value, "the tools")
    if value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    return [tool_of(parsed(t, "a tool") if isinstance(t, str) else t) for t in listed]


def tool_of(schema: Any) -> dict[str, Any]:
    """One function schema in OpenAI's form. Raises RowFault."""
    if isinstance(schema, dict):
        if isinstance(schema.get("function"), dict) and schema["function"].get("name"):
            return schema if "type" in schema else {"type": "function", **schema}
        if isinstance(schema.get("name"), str) and schema["name"]:
            return {"type": "function", "function": schema}
    raise RowFault("bad_tools", f"no function schema: {str(schema)[:80]}")


def calls_of(value: Any, first_index: int) -> list[dict[str, Any]]:
    """Tool calls: a list of them, one, or JSON in a string; ids are made where there are none.

    Raises:
        RowFault: a call without a name, or with arguments that are no JSON object.
    """
    if isinstance(value, str):
        value = _call_text(value)
    listed = value if isinstance(value, list) else [value]
    return [_call(call, first_index + offset) for offset, call in enumerate(listed)]


def _call_text(text: str) -> Any:
    """A call as text. Glaive writes its arguments as a quoted string inside the object:
    {"name": "f", "arguments": '{"a": 1}'} , which is no JSON until the quotes are gone."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        unquoted = _PYTHON_ARGUMENTS.sub(lambda m: m[1].replace("\\'", "'") + "}", text.strip())
    try:
        return msgspec.json.decode(unquoted)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise RowFault("bad_tool_call", f"a call that is no JSON: {error}: {text[:80]}") from None


def _call(call: Any, index: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    inner = function if isinstance(function, dict) else call
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str) or not name:
        raise RowFault("bad_tool_call", f"a tool call without a name: {str(call)[:80]}")
    arguments = inner.get("arguments", inner.get("parameters"))
    if isinstance(arguments, str):
        is_object = arguments.strip() == "" or isinstance(_loose(arguments), dict)
    else:
        is_object = arguments is None or isinstance(arguments, dict)
    if not is_object:
        raise RowFault("bad_tool_call", f"the arguments of {name} are no JSON object")
    return {
        "id": str(call.get("id") or f"functions.{name}:{index}"),
        "type": "function",
        "function": {"name": name, "arguments": {} if arguments in (None, "") else arguments},
    }


def _loose(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def tagged_calls(text: str, first_index: int) -> tuple[str, list[dict[str, Any]]]:
    """The text before and between `<tool_call>` tags, and the calls in them. Raises RowFault."""
    calls: list[dict[str, Any]] = []
    for found in _TAGGED.findall(text):
        calls += calls_of(found, first_index + len(calls))
    return _TAGGED.sub("", text).strip() if calls else text, calls


def tagged_answers(text: str) -> list[str]:
    """The texts inside `<tool_response>` tags; the whole text when there are none."""
    return _ANSWERED.findall(text) or [text]


def count_calls(messages: list[dict[str, Any]]) -> int:
    """How many tool calls a conversation has made so far."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)


def last_call_ids(messages: list[dict[str, Any]]) -> list[str]:
    """Ids of the newest calls that no tool turn has answered yet, oldest first."""
    open_ids: list[str] = []
    for message in messages:
        if message.get("tool_calls"):
            open_ids = [call["id"] for call in message["tool_calls"]]
        elif message["role"] == "tool" and message.get("tool_call_id") in open_ids:
            open_ids.remove(message["tool_call_id"])
    return open_ids
