"""Tool calls of the families whose markers are (mostly) text. No validator: `tool_calls` uses it.

    dsml    <D function_calls> (<D invoke name="NAME"> (<D parameter name="KEY" string="true|false">
            VALUE </D parameter>)* </D invoke>)+ </D function_calls>, where D is one token; the
            values of string="false" are JSON, and so may be the whole of an invoke be
    llama3  {"name": NAME, "parameters": {...}} as the whole answer, several parted by ";"; behind
            <|python_tag|> the same, NAME.call(key=VALUE, ...) of a built-in tool, or Python code

Llama's JSON has no marker: it counts as a call only where tools were offered.
"""

import ast
import json
import re
from collections.abc import Iterator

from validators.calls import Call, Calls, json_call, named_call, no_name

_D = "\uff5cDSML\uff5c"
_BLOCK = re.compile(
    rf"<{_D}(?P<kind>function_calls|tool_calls)>(?P<body>.*?)</{_D}(?P=kind)>", re.DOTALL
)
_BLOCK_OPENS = re.compile(rf"<{_D}(?:function_calls|tool_calls)>")
_UNFINISHED = re.compile(rf"<{_D}[a-z_]*\Z")
_INVOKE = re.compile(rf'<{_D}invoke name="(?P<name>[^"]*)">(?P<body>.*?)</{_D}invoke>', re.DOTALL)
_PARAMETER = re.compile(
    rf'<{_D}parameter name="(?P<key>[^"]*)" string="(?P<string>true|false)">'
    rf"(?P<value>.*?)</{_D}parameter>",
    re.DOTALL,
)
_BUILT_IN = re.compile(r"(?P<name>[A-Za-z_]\w*)\.call\((?P<arguments>.*)\)", re.DOTALL)
_LLAMA_CALL = re.compile(
    r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"[^"]*"\s*,\s*"(?:parameters|arguments)"'
)
CODE = "code_interpreter"
"""What Llama's bare Python code is a call of."""


def dsml_calls(text: str) -> Calls:
    """The calls in an output that holds the token D."""
    calls: list[Call] = []
    broken = ""
    for block in _BLOCK.finditer(text):
        found, rest = _invokes(block["body"])
        calls += found
        if not found:
            broken = broken or "a block without a call"
        elif _D in rest:
            broken = broken or "markup that is no call inside a block"
    left = _BLOCK.sub("", text)
    opened = _BLOCK_OPENS.search(left)
    if opened is not None:
        calls += _invokes(left[opened.end() :])[0]
        left = left[: opened.start()]
    unfinished = _UNFINISHED.search(left) if opened is None else None
    if _D in (left if unfinished is None else left[: unfinished.start()]):
        broken = broken or "markup outside of a block"
    return Calls(tuple(calls), broken, open=opened is not None or unfinished is not None)


def _invokes(text: str) -> tuple[list[Call], str]:
    """The whole calls in a text, and what is left of it."""
    found = [_invoke(one["name"], one["body"]) for one in _INVOKE.finditer(text)]
    return found, _INVOKE.sub("", text)


def _invoke(name: str, body: str) -> Call:
    if not name:
        return no_name(body)
    if body.strip().startswith("{"):
        return json_call(name, body)
    arguments = {}
    for one in _PARAMETER.finditer(body):
        try:
            value = one["value"] if one["string"] == "true" else json.loads(one["value"])
        except (ValueError, RecursionError) as error:
            detail = f"{name}: {one['key']}: {error}"
            return Call(name=name, arguments=None, fault="bad_json", detail=detail[:160])
        arguments[one["key"]] = value
    if _D in _PARAMETER.sub("", body):
        detail = f"{name}: a parameter that is none"
        return Call(name=name, arguments=None, fault="bad_json", detail=detail)
    return Call(name=name, arguments=arguments)


def llama_calls(text: str, *, tagged: bool, cut: bool) -> Calls | None:
    """The calls in an answer (`tagged`: in what stands behind <|python_tag|>; `cut`: it goes on);
    None for an answer that is none."""
    text = text.strip()
    if _LLAMA_CALL.match(text) or (tagged and text.startswith("{")):
        calls = list(_objects(text))
        if not cut or calls[-1].fault != "bad_json":
            return Calls(tuple(calls))
        return Calls(tuple(calls[:-1]), open=True)
    if not tagged:
        return None
    if cut:
        return Calls(open=True)
    if not text:
        return Calls((no_name(text),))
    built_in = _BUILT_IN.fullmatch(text)
    if built_in is not None:
        return Calls((_built_in(built_in["name"], built_in["arguments"]),))
    return Calls((Call(name=CODE, arguments={"code": text}),))


def _objects(text: str) -> Iterator[Call]:
    """JSON objects one after the other, parted by ";", blanks or nothing."""
    decoder = json.JSONDecoder()
    while text:
        try:
            _, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            end = len(text)
        yield named_call(text[:end], "parameters", "arguments")
        text = text[end:].lstrip("; \n\t")


def _built_in(name: str, arguments: str) -> Call:
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        keywords = call.keywords if isinstance(call, ast.Call) and not call.args else []
        values = {str(one.arg): ast.literal_eval(one.value) for one in keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        detail = f"{name}: {type(error).__name__}"
        return Call(name=name, arguments=None, fault="bad_json", detail=detail)
    return Call(name=name, arguments=values)
