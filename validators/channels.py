"""The structure of an answer that is written into named channels (gpt-oss).

Covers: headers without a message, channels that the format does not have, an answer that stopped
with neither a final message nor a tool call, analysis after the final message.
Does not cover: what the messages say; tool calls themselves (`tool_calls`); outputs cut by length
(`finish` says where the cut fell). Families with think tokens skip: `thinking` is theirs.

Reasons
    broken_header    flag  a header or channel marker where the format has none, or an empty header
    unknown_channel  flag  a channel other than analysis, commentary and final
    no_final         flag  stopped without a final message and without a tool call
    late_analysis    flag  reasoning after the final message

Example: about 4 % of the headers that one engine's gpt-oss wrote were malformed, and the chat API
moved such text silently into the answer.
"""

from collections.abc import Mapping
from typing import ClassVar

from runner.records import (
    ChannelMarkers,
    Kind,
    Outcome,
    Sample,
    SampleContext,
    Severity,
    Verdict,
)


class Channels:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "broken_header": Severity.FLAG,
        "unknown_channel": Severity.FLAG,
        "no_final": Severity.FLAG,
        "late_analysis": Severity.FLAG,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; skip for a format without channels."""
        channels = context.profile.channels
        if channels is None:
            return Verdict(outcome=Outcome.SKIP)
        if (fault := _headers(sample.output_ids, context.specials, channels)) is not None:
            return _fail(*fault)
        kinds = [kind for kind, _, _ in context.segments if kind is not Kind.SPECIAL]
        answers = [i for i, kind in enumerate(kinds) if kind is Kind.ANSWER]
        if answers and Kind.REASONING in kinds[answers[-1] + 1 :]:
            return _fail("late_analysis", "reasoning after the last answer")
        if sample.finish == "stop" and not answers and Kind.TOOL_CALL not in kinds:
            return _fail("no_final", f"{len(kinds)} messages, none final")
        return Verdict(outcome=Outcome.PASS)


def _headers(
    ids: list[int], specials: list[int], channels: ChannelMarkers
) -> tuple[str, str] | None:
    """What is wrong with the first header that is wrong: messages are
    `[start role] [channel] NAME ... [message] CONTENT [end]`."""
    state, named = "header", 0
    for at in specials:
        mark = _MARKS.get((state, _name(ids[at], channels)))
        if mark == "":
            continue
        if mark is None:
            return "broken_header", f"{_name(ids[at], channels)} marker in {state}, position {at}"
        if mark == "message" and not _is_known(ids[named:at], channels):
            return "unknown_channel", f"at position {named}"
        state, named = mark, at + 1
    return None


def _name(token: int, channels: ChannelMarkers) -> str:
    """The marker's name, "" for any other special id (a stop, <|constrain|>)."""
    names = {
        channels.start: "start",
        channels.channel: "channel",
        channels.message: "message",
        channels.end: "end",
    }
    return names.get(token, "")


_STATES = ("header", "channel", "message", "ended")
_MARKS: Mapping[tuple[str, str], str] = {
    ("header", "channel"): "channel",
    ("channel", "message"): "message",
    ("message", "end"): "ended",
    ("ended", "start"): "header",
    **{(state, ""): "" for state in _STATES},
}
"""(state, marker) -> the next state; "" leaves it, what is missing is broken."""


def _is_known(header: list[int], channels: ChannelMarkers) -> bool:
    return any(header[: len(spelt)] == spelt for spelt in channels.names.values())


def _fail(reason: str, detail: str) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=detail)
