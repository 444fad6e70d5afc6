"""Tool calls as the model families write them, read from ids and text. No validator: `tool_calls`
uses it.

    kimi      <section> (<call> functions.NAME:INDEX <args> JSON <end>)+ <section end>
    deepseek  the same markers with NAME<sep>JSON, or type<sep>NAME and a fenced JSON block
    hermes    <tool_call> {"name": NAME, "arguments": {...}} </tool_call>
    qwen_xml  <tool_call> <function=NAME> <parameter=KEY> VALUE </parameter> ... </tool_call>
    glm       <tool_call> NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ... </tool_call>
    minimax   <minimax:tool_call> (<invoke name="NAME"> <parameter name="KEY">VALUE...)+
    harmony   a message whose header is addressed to functions.NAME, holding JSON
    dsml, llama3: see `text_calls`

Text inside markers is read leniently: blanks around it mean nothing. The result is data; what is
wrong with a call is for the validator to say.
"""

import re
from collections.abc import Callable, Iterator

from runner.records import Kind, Segment, TokenProfile, ToolMarkers
from validators.calls import Call, Calls, Decode, json_call, named_call, no_name
from validators.text_calls import dsml_calls, llama_calls

_KIMI_ID = re.compile(r"functions\.(?P<name>[^\s:]+):(?P<index>\d+)")
_FENCE = re.compile(r"\s*(?P<name>\S+)\s*```(?:json)?\s*(?P<json>.*?)\s*```\s*", re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=(?P<name>[^>\s]+)>(?P<body>.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_GLM_PAIR = re.compile(
    r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL
)
_INVOKE = re.compile(r'<invoke name="(?P<name>[^"]*)">(?P<body>.*?)</invoke>', re.DOTALL)
_INVOKE_PARAMETER = re.compile(r'<parameter name="([^"]*)">\n?(.*?)\n?</parameter>', re.DOTALL)
_RECIPIENT = re.compile(r"to=(?:functions\.)?(?P<name>[\w.-]+)")


def read_calls(
    ids: list[int],
    specials: list[int],
    segments: list[Segment],
    profile: TokenProfile,
    decode: Decode,
    *,
    offered: bool,
    cut: bool,
) -> Calls | None:
    """The calls of an output, None for one that has none. `offered`: the prompt has tools; `cut`:
    the output ended by length."""
    if profile.channels is not None:
        return _harmony(ids, segments, decode)
    tools = profile.tools
    if tools is None:
        return None
    markers = {v for v in _ids(tools) if v >= 0}
    marks = [i for i in specials if ids[i] in markers]
    if tools.grammar == "llama3":
        text = _llama_text(ids, segments, Kind.TOOL_CALL if marks else Kind.ANSWER, decode)
        return llama_calls(text, tagged=bool(marks), cut=cut) if marks or offered else None
    if not marks:
        return None
    if tools.grammar == "dsml":
        return dsml_calls(decode(ids))
    if tools.grammar in ("kimi", "deepseek"):
        return _sections(ids, marks, tools, decode)
    return _pairs(ids, marks, tools, decode)


def _llama_text(ids: list[int], segments: list[Segment], kind: Kind, decode: Decode) -> str:
    part = next((one for one in segments if one.kind is kind), None)
    return "" if part is None else decode(ids[part.start : part.end])


def _ids(tools: ToolMarkers) -> tuple[int, ...]:
    return (
        tools.section_begin,
        tools.call_begin,
        tools.argument_begin,
        tools.call_end,
        tools.section_end,
    )


def _sections(ids: list[int], marks: list[int], tools: ToolMarkers, decode: Decode) -> Calls:
    """A small machine over the markers: outside, section, header, arguments."""
    names = dict(zip(_ids(tools), ("section", "call", "args", "end", "close"), strict=True))
    allowed = {
        "outside": {"section": "section"},
        "section": {"call": "header", "close": "outside"},
        "header": {"args": "arguments"},
        "arguments": {"end": "section"},
    }
    state, start, header, calls = "outside", 0, "", list[Call]()
    for at in marks:
        mark = names[ids[at]]
        if mark not in allowed[state]:
            return Calls(tuple(calls), f"{mark} marker in state {state} at position {at}")
        text = decode(ids[start:at]) if state in ("header", "arguments") else ""
        if state == "header":
            header = text
        elif state == "arguments":
            calls.append(_section_call(header, text, tools.grammar))
        elif state == "section" and mark == "close" and not calls:
            return Calls((), f"a section without a call at position {at}")
        state, start = allowed[state][mark], at + 1
    return Calls(tuple(calls), open=state != "outside")


def _section_call(header: str, text: str, grammar: str) -> Call:
    if grammar == "kimi":
        match = _KIMI_ID.fullmatch(header.strip())
        if match is None:
            return Call(name="", arguments=None, fault="bad_call_id", detail=header.strip()[:80])
        return json_call(match["name"], text, index=int(match["index"]))
    fenced = _FENCE.fullmatch(text)
    if fenced is not None:
        return json_call(fenced["name"], fenced["json"])
    return json_call(header.strip(), text)


def _pairs(ids: list[int], marks: list[int], tools: ToolMarkers, decode: Decode) -> Calls:
    """Opening and closing markers in turn, with one call or several between them."""
    calls, begun = list[Call](), -1
    for at in marks:
        opening = ids[at] == tools.call_begin
        if opening != (begun < 0):
            what = "opened twice" if opening else "closed without an opening"
            return Calls(tuple(calls), f"{what} at position {at}")
        if opening:
            begun = at
        else:
            calls += _READERS[tools.grammar](decode(ids[begun + 1 : at]))
            begun = -1
    return Calls(tuple(calls), open=begun >= 0)


def _hermes(text: str) -> list[Call]:
    return [named_call(text, "arguments")]


def _qwen_xml(text: str) -> list[Call]:
    match = _FUNCTION.fullmatch(text)
    if match is None:
        return [no_name(text)]
    return [Call(match["name"], dict(_PARAMETER.findall(match["body"])), typed=False)]


def _glm(text: str) -> list[Call]:
    name = text.partition("<arg_key>")[0].strip()
    if not name or "<" in name or "\n" in name:
        return [no_name(text)]
    return [Call(name, dict(_GLM_PAIR.findall(text)), typed=False)]


def _minimax(text: str) -> list[Call]:
    calls = [
        Call(match["name"], dict(_INVOKE_PARAMETER.findall(match["body"])), typed=False)
        for match in _INVOKE.finditer(text)
    ]
    return calls or [no_name(text)]


_READERS: dict[str, Callable[[str], list[Call]]] = {
    "hermes": _hermes,
    "qwen_xml": _qwen_xml,
    "glm": _glm,
    "minimax": _minimax,
}


def _harmony(ids: list[int], segments: list[Segment], decode: Decode) -> Calls | None:
    calls = list(_harmony_calls(ids, segments, decode))
    return Calls(tuple(calls), open=segments[-1].kind is Kind.TOOL_CALL) if calls else None


def _harmony_calls(ids: list[int], segments: list[Segment], decode: Decode) -> Iterator[Call]:
    header = 0
    for kind, start, end in segments:
        if kind is Kind.TOOL_CALL:
            match = _RECIPIENT.search(decode(ids[header:start]))
            if match is None:
                yield no_name(decode(ids[header:start]))
            else:
                yield json_call(match["name"], decode(ids[start:end]))
        if kind is not Kind.SPECIAL:
            header = end
