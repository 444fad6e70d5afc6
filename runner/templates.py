"""What a chat template does, found by rendering small conversations and comparing ids."""

import datetime
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

from runner.config import ModelMode
from runner.records import ModeProfile
from runner.render import RenderFault, Tokenizer

_OTHER_DATE = datetime.date(2001, 2, 3)
USER = {"role": "user", "content": "probe"}
_ASSISTANT = {"role": "assistant", "content": "fine"}
_SYSTEM = {"role": "system", "content": "rule"}
_CALL = {
    "id": "functions.look:0",
    "type": "function",
    "function": {"name": "look", "arguments": {"at": "sky"}},
}
_CALLING = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "functions.look:0", "name": "look", "content": "blue"}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at something.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    }
]


def probe_mode(
    tokenizer: Tokenizer, mode: ModelMode, think_open: int | None, think_close: int | None
) -> ModeProfile:
    def render(*messages: dict[str, Any]) -> list[int] | None:
        return _try_render(tokenizer, mode, list(messages))

    tail = _tail(tokenizer, mode, [USER])
    after_tool = _tail(tokenizer, mode, [USER, _CALLING, _RESULT], _TOOLS)
    return ModeProfile(
        template_kwargs=dict(mode.template_kwargs),
        generation_prompt=tail,
        think=_think_state(tail, think_open, think_close),
        after_tool=None if after_tool == tail else after_tool,
        control=_control(render, set(tokenizer.special_tokens)),
    )


def _try_render(
    tokenizer: Tokenizer, mode: ModelMode, messages: list[dict[str, Any]]
) -> list[int] | None:
    """None for a conversation that the template refuses: some know no system role, for example."""
    try:
        return tokenizer.render(messages, [], mode.template_kwargs)
    except RenderFault:
        return None


def _tail(
    tokenizer: Tokenizer,
    mode: ModelMode,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] = [],  # noqa: B006 - never changed
) -> list[int]:
    """What the generation prompt adds. [] where the template refuses the conversation."""
    try:
        ids = tokenizer.render(messages, tools, mode.template_kwargs)
        without = tokenizer.render(messages, tools, mode.template_kwargs, generation_prompt=False)
    except RenderFault:
        if messages == [USER]:
            raise
        return []
    common = next(
        (i for i, (a, b) in enumerate(zip(ids, without, strict=False)) if a != b),
        min(len(ids), len(without)),
    )
    return ids[common:]


def _think_state(
    tail: list[int], think_open: int | None, think_close: int | None
) -> Literal["open", "closed", "none"]:
    last = next((i for i in reversed(tail) if i in (think_open, think_close)), None)
    if last is None:
        return "none"
    return "open" if last == think_open else "closed"


def _control(
    render: Callable[..., list[int] | None], special: set[int]
) -> dict[str, dict[int, int]]:
    """Counts of special ids, where they simply add up; see ModeProfile."""

    def counted(*messages: dict[str, Any]) -> Counter[int] | None:
        ids = render(*messages)
        return None if ids is None else Counter(i for i in ids if i in special)

    base = counted(USER)
    if base is None:
        return {}
    found = {"base": dict(base)}
    with_system = counted(_SYSTEM, USER)
    if with_system is not None and _covers(with_system, base):
        found["system"] = dict(with_system - base)
    two = counted(USER, _ASSISTANT, USER)
    three = counted(USER, _ASSISTANT, USER, _ASSISTANT, USER)
    if two is not None and three is not None and _covers(two, base) and three - two == two - base:
        found["turn"] = dict(two - base)
    return found


def _covers(whole: Counter[int], part: Counter[int]) -> bool:
    return all(whole[i] >= n for i, n in part.items())


def role_openers(
    tokenizer: Tokenizer, modes: Mapping[str, ModelMode], special: set[int]
) -> dict[str, list[int]]:
    """The special id that opens each role's message, other than think and tool markers.

    Either all roles share the one that the generation prompt begins with, or each has its own: the
    last one in front of the content that the generation prompt does not use.
    """
    mode = next(iter(modes.values()), ModelMode())
    tail = [i for i in _tail(tokenizer, mode, [USER]) if i in special]
    found = {"assistant": tail[:1]}
    for message, others in ((USER, []), (_SYSTEM, [USER])):
        ids = _try_render(tokenizer, mode, [message, *others]) or []
        before = _before(ids, tokenizer.encode(message["content"]))
        header = [i for i in before if i in special and (i in tail or i != tokenizer.bos_id)]
        own = [i for i in header if i not in tail][-1:]
        found[message["role"]] = tail[:1] if tail[:1] and tail[0] in header else own
    return {role: ids for role, ids in found.items() if ids}


def _before(ids: list[int], content: list[int]) -> list[int]:
    """What stands in front of the content; [] where it is not found as it was encoded alone."""
    size = len(content)
    return next((ids[:i] for i in range(len(ids)) if ids[i : i + size] == content), [])


def injects_date(tokenizer: Tokenizer, modes: Mapping[str, ModelMode]) -> bool:
    return any(
        _try_render(tokenizer, mode, [USER]) != _try_render(tokenizer.at(_OTHER_DATE), mode, [USER])
        for mode in modes.values()
    )
