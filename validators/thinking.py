"""The structure of the reasoning: opened once, closed once, with something on both sides.

Covers: missing and repeated think markers, reasoning or answer left empty, a tool section opened
before the reasoning was closed, think markers in instant mode. All of it is the model's own
behaviour, which a drafter must learn too: flagged, never rejected, unless the config says so.
Does not cover: what the reasoning says; samples cut by length (a missing close is no surprise
there: `finish` tells those apart).

Reasons
    think_in_instant   flag  a think marker although the prompt had closed the reasoning
    no_close           flag  stopped by itself, yet the reasoning was never closed
    second_close       flag  the reasoning is closed more than once
    second_open        flag  opened again, by a marker in the output after it was open
    tool_before_close  flag  a tool section begins inside the reasoning
    empty_reasoning    flag  closed at once, or after white space
    missing_answer     flag  nothing but white space between the close and the stop

Example: Kimi-K2.5's prompt ends in <think>, so a whole completion holds no <think> and exactly one
</think>; a chat API that strips markers gave text in which neither could be checked.
"""

from collections.abc import Mapping
from typing import ClassVar

from runner.records import IdKind, Outcome, Sample, SampleContext, Severity, Verdict

REASONS = (
    "think_in_instant",
    "no_close",
    "second_close",
    "second_open",
    "tool_before_close",
    "empty_reasoning",
    "missing_answer",
)


BLANK_IDS = 8
"""A longer stretch is not looked at: its text would be decoded for nothing."""


class Thinking:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = dict.fromkeys(REASONS, Severity.FLAG)

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; skip for a tokenizer without think tokens."""
        opener, closer = context.profile.think_open, context.profile.think_close
        if opener is None or closer is None:
            return Verdict(outcome=Outcome.SKIP)
        opens = _positions(context, opener)
        closes = _positions(context, closer)
        if context.mode.think == "closed":
            return _instant(opens, closes)
        if context.mode.think == "none" and not opens and not closes:
            return Verdict(outcome=Outcome.SKIP)
        return _thinking(sample, context, opens, closes)


def _positions(context: SampleContext, token: int) -> list[int]:
    return [i for i in context.specials if context.output[i] == token]


def _instant(opens: list[int], closes: list[int]) -> Verdict:
    if opens or closes:
        return _fail("think_in_instant", f"at position {min(opens + closes)}")
    return Verdict(outcome=Outcome.PASS)


def _thinking(
    sample: Sample, context: SampleContext, opens: list[int], closes: list[int]
) -> Verdict:
    size = len(sample.output_ids)
    start = 0 if context.mode.think == "open" else (opens[0] + 1 if opens else 0)
    extra = opens if context.mode.think == "open" else opens[1:]
    if extra:
        return _fail("second_open", f"at position {extra[0]}")
    if len(closes) > 1:
        return _fail("second_close", f"{len(closes)} times, the second at position {closes[1]}")
    tools = context.profile.tools
    sections = _positions(context, tools.section_begin) if tools is not None else []
    if sections and (not closes or sections[0] < closes[0]):
        return _fail("tool_before_close", f"at position {sections[0]}")
    if not closes:
        if sample.finish == "length":
            return Verdict(outcome=Outcome.SKIP)
        return _fail("no_close", f"{size} tokens without a close")
    if _is_blank(context, start, closes[0]):
        return _fail("empty_reasoning", f"closed at position {closes[0]}")
    if sample.finish == "stop" and _is_blank(context, closes[0] + 1, size):
        return _fail("missing_answer", f"closed at position {closes[0]} of {size}")
    return Verdict(outcome=Outcome.PASS)


def _is_blank(context: SampleContext, start: int, end: int) -> bool:
    """Nothing but stops and white space: families write line breaks around the markers. Where
    there is no text to look at, only nothing is blank."""
    ids = context.output[start:end][(context.kinds[start:end] & IdKind.STOP) == 0]
    if not len(ids):
        return True
    return (
        len(ids) <= BLANK_IDS
        and context.decode is not None
        and not context.decode(ids.tolist()).strip()
    )


def _fail(reason: str, detail: str) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=detail)
