"""What a chat API dropped or moved, compared with the raw ids of the same answer. Pure.

The raw side is the truth: ids and their text with every special token visible.
"""

from collections import Counter
from collections.abc import Callable

from runner.engines.chat import ChatAnswer
from runner.records import NOT_TOLD, Kind, ModeProfile, Record, TokenProfile
from runner.segments import segments_of

IN_TEXT = ("minimax", "dsml", "llama3")
"""Grammars whose markers do not count the calls."""


class Parity(Record, frozen=True, kw_only=True):
    """One prompt asked both ways. `faults` are the differences, each one line; [] for none.

    `dropped` counts special tokens of the raw output that are in no text of the chat answer.
    """

    sample_id: str
    raw: str
    chat: ChatAnswer
    dropped: dict[str, int]
    faults: list[str]


def compare(
    sample_id: str,
    prompt_tokens: int,
    output_ids: list[int],
    chat: ChatAnswer,
    profile: TokenProfile,
    mode: ModeProfile,
    decode: Callable[[list[int]], str],
) -> Parity:
    """The differences between a raw output and the chat API's answer."""
    texts = _texts(output_ids, profile, mode, decode)
    dropped = _dropped(output_ids, chat, profile)
    faults = []
    if chat.prompt_tokens not in (NOT_TOLD, prompt_tokens):
        faults.append(
            f"other prompt: {prompt_tokens} ids raw, {chat.prompt_tokens} by the chat API"
        )
    if chat.completion_tokens not in (NOT_TOLD, len(output_ids)):
        faults.append(f"other count: {len(output_ids)} ids raw, {chat.completion_tokens} told")
    if dropped:
        named = ", ".join(f"{n} x {name}" for name, n in dropped.items())
        faults.append(f"dropped: {named}")
    faults += _moved("reasoning", texts[Kind.REASONING], chat.reasoning, chat)
    faults += _moved("answer", texts[Kind.ANSWER], chat.content, chat)
    faults += _calls(output_ids, profile, mode, chat)
    return Parity(
        sample_id=sample_id, raw=decode(output_ids), chat=chat, dropped=dropped, faults=faults
    )


def _texts(
    ids: list[int], profile: TokenProfile, mode: ModeProfile, decode: Callable[[list[int]], str]
) -> dict[Kind, str]:
    texts = dict.fromkeys(Kind, "")
    for kind, start, end in segments_of(ids, profile, mode):
        texts[kind] += decode(ids[start:end])
    return texts


def _dropped(ids: list[int], chat: ChatAnswer, profile: TokenProfile) -> dict[str, int]:
    said = chat.content + chat.reasoning
    raw = Counter(profile.special_tokens[i] for i in ids if i in profile.special_tokens)
    lost = {name: n - said.count(name) for name, n in raw.items()}
    return {name: n for name, n in lost.items() if n > 0}


def _moved(what: str, raw: str, field: str, chat: ChatAnswer) -> list[str]:
    """Where a stretch of the raw text went: its own field, another one, or nowhere."""
    text = raw.strip()
    if text == field.strip():
        return []
    if not text:
        return [f"{what}: none raw, {len(field)} characters by the chat API"]
    other = {"content": chat.content, "reasoning_content": chat.reasoning}
    place = next((name for name, value in other.items() if text in value), None)
    if place is not None and text not in field:
        return [f"{what}: moved to {place}"]
    if place is not None:
        return [f"{what}: with more text around it in {place}"]
    return [f"{what}: {len(text)} characters raw, not found in the chat answer"]


def _calls(ids: list[int], profile: TokenProfile, mode: ModeProfile, chat: ChatAnswer) -> list[str]:
    """Calls are counted by their markers; where several stand between two markers, or in text,
    there is only some or none."""
    tools, told = profile.tools, len(chat.tool_calls)
    if profile.channels is not None:
        kinds = [kind for kind, _, _ in segments_of(ids, profile, mode)]
        raw, counted = kinds.count(Kind.TOOL_CALL), True
    else:
        raw = ids.count(tools.call_begin) if tools is not None else 0
        counted = tools is None or tools.grammar not in IN_TEXT
        if not raw and tools is not None and tools.grammar == "llama3":
            return []  # its calls need no marker
    if raw == told or (not counted and bool(raw) == bool(told)):
        return []
    return [f"tool calls: {raw if counted or not raw else 'some'} raw, {told} by the chat API"]
