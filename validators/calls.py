"""What a tool call is, once it is read. No validator; `call_grammars` and `text_calls` use it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Decode = Callable[[list[int]], str]


@dataclass(frozen=True)
class Call:
    """One call. `arguments` is parsed JSON, or name -> text for the XML forms (`typed` False).

    `fault` is "" or a reason of `tool_calls`: bad_call_id, bad_json. `index` is the counter of the
    call id, -1 where the grammar has none.
    """

    name: str
    arguments: Any
    typed: bool = True
    index: int = -1
    fault: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Calls:
    """All calls of an output. `broken` says what is wrong with the markers, "" for nothing; `open`
    is True where the output ends inside a call or a section."""

    calls: tuple[Call, ...] = ()
    broken: str = ""
    open: bool = False


def json_call(name: str, text: str, *, index: int = -1) -> Call:
    """A call whose arguments are JSON."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        detail = f"{name}: {error}"
        return Call(name=name, arguments=None, index=index, fault="bad_json", detail=detail[:160])
    return Call(name=name, arguments=arguments, index=index)


def named_call(text: str, *keys: str) -> Call:
    """A JSON object that holds the name of the tool, and its arguments under the first of `keys`
    that is there."""
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Call(name="", arguments=None, fault="bad_json", detail=str(error)[:160])
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Call(name="", arguments=None, fault="bad_call_id", detail="no name in the call")
    return Call(name=call["name"], arguments=next((call[k] for k in keys if k in call), {}))


def no_name(text: str) -> Call:
    """A call in which nothing stands where the name should."""
    return Call(name="", arguments=None, fault="bad_call_id", detail=text.strip()[:80])
