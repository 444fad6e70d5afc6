"""An output as an OpenAI assistant message, decoded from its ids by the token profile.

Reasoning, answer and tool calls are the segments of `runner.segments`; special tokens have no place
in a message and are dropped, the stop too. That is what makes text the poorer form: `roundtrip`
counts what it loses. The tool calls are read by a function that is named, not imported, so that a
family of one's own needs no change here.
"""

import json
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from runner.errors import ConfigError
from runner.export.item import Item
from runner.records import Prompt, TokenProfile
from runner.segments import Kind, segments_of

CallReader = Callable[..., Any]
"""(ids, positions of special ids, segments, profile, decode, offered=, cut=) -> an object with
`calls` (each with name, arguments, typed, index, fault), `broken` and `open`; None for an output
without calls. `offered`: the prompt has tools; `cut`: the output ends before the model's stop."""


class Answer(NamedTuple):
    """The parts of an output. `tool_calls` are OpenAI's, arguments as a JSON text; `fault` says why
    there is no message, "" where there is one."""

    content: str
    reasoning: str
    tool_calls: list[dict[str, Any]]
    fault: str = ""

    @property
    def message(self) -> dict[str, Any]:
        """The assistant message. It has a `reasoning_content` even where there was none: so its
        keys are never those of a user's, and Hugging Face datasets, which infers the types from the
        first rows, takes messages as JSON and not as structs that refuse a key that comes later."""
        message = {
            "role": "assistant",
            "content": self.content,
            "reasoning_content": self.reasoning,
        }
        return {**message, "tool_calls": self.tool_calls} if self.tool_calls else message


def as_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a prompt, without empty keys; its calls have their arguments as JSON text."""
    found = {key: value for key, value in message.items() if value is not None}
    if found.get("tool_calls"):
        found["tool_calls"] = [_as_text(call) for call in found["tool_calls"]]
    return {**found, "content": found.get("content", "")}


def _as_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else _json(arguments)
    return {
        "id": str(call.get("id") or ""),
        "type": "function",
        "function": {"name": str(function.get("name") or ""), "arguments": text},
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def answer_of(item: Item, prompt: Prompt, read_calls: CallReader) -> Answer:
    """Decode an output. A fault where a tool call is there that no message can hold."""
    source = item.source
    ids, profile, decode = item.output_ids(), source.profile, source.tokenizer.decode
    specials = [i for i, token in enumerate(ids) if token in profile.special_tokens]
    segments = segments_of(ids, profile, source.mode(item.metadata.mode), specials)
    texts = {
        kind: "".join(decode(ids[start:end]) for k, start, end in segments if k is kind)
        for kind in (Kind.ANSWER, Kind.REASONING, Kind.TOOL_CALL)
    }
    cut = item.metadata.finish_reason == "length"
    found = read_calls(
        ids, specials, segments, profile, decode, offered=bool(prompt.tools), cut=cut
    )
    calls, fault = _calls(found, prompt)
    said = texts[Kind.ANSWER]
    if calls and profile.channels is None:
        said = _without_calls(said, texts[Kind.TOOL_CALL], profile)
    return Answer(said, texts[Kind.REASONING], calls, fault)


def _without_calls(said: str, inside: str, profile: TokenProfile) -> str:
    """What an output with calls says beside them. Llama writes them as the answer, without a
    marker; the tags of DSML open with a "<" that is text before the marker."""
    if not inside:
        return ""
    dsml = profile.tools is not None and profile.tools.grammar == "dsml"
    return said.removesuffix("<") if dsml else said


def _calls(found: Any, prompt: Prompt) -> tuple[list[dict[str, Any]], str]:
    if found is None:
        return [], ""
    if found.broken or any(call.fault for call in found.calls):
        return [], "unreadable_tool_call"
    if found.open:
        return [], "cut_in_tool_call"
    schemas = {
        tool.get("function", {}).get("name"): tool.get("function", {}).get("parameters")
        for tool in prompt.tools
    }
    return [
        {
            "id": f"functions.{call.name}:{call.index}" if call.index >= 0 else f"call_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call, schemas.get(call.name))},
        }
        for place, call in enumerate(found.calls)
    ], ""


def _arguments(call: Any, schema: Any) -> str:
    """The arguments as JSON. Families with XML calls write texts: the tool's schema says which of
    them are numbers, lists and so on."""
    if call.typed:
        return _json(call.arguments)
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    declared = properties if isinstance(properties, Mapping) else {}
    return _json({key: _typed(text, declared.get(key)) for key, text in call.arguments.items()})


def _typed(text: str, schema: Any) -> Any:
    if not isinstance(schema, Mapping) or schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def inline_text(item: Item) -> str:
    """The output as one text, markers included and the stop not: as the model wrote it. A think
    marker that the prompt wrote is put in front."""
    profile = item.source.profile
    ids = item.output_ids()
    while ids and ids[-1] in profile.stop_ids:
        ids.pop()
    mode = item.source.mode(item.metadata.mode)
    opening = _opening(profile) if mode.think == "open" else []
    return item.source.tokenizer.decode([*opening, *ids])


def _opening(profile: TokenProfile) -> list[int]:
    return [] if profile.think_open is None else [profile.think_open]


def load_call_reader(name: str) -> CallReader:
    """The function that MODULE:NAME means. Raises ConfigError."""
    try:
        found = pkgutil.resolve_name(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise ConfigError(
            "The reader of tool calls cannot be loaded.",
            where="--call-reader",
            found=f"{name}: {error}",
            allowed="MODULE:NAME of a function",
        ) from error
    if not callable(found):
        raise ConfigError(
            "The reader of tool calls is no function.", where="--call-reader", found=name
        )
    return found  # type: ignore[no-any-return]
