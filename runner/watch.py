"""Canary and circuit breaker: whether the answers that come are good enough to go on.

Each settled sample and each unusable answer is one event. Too many bad ones among the last few
trip the breaker: `Tripped` ends the wave of requests, and whoever sends decides what follows
(runner.recovery). Bad are rejected samples and unusable answers. What the model does oddly itself
is flagged and counts only where the config expects a lower rate of it (`expected.rates` of a part)
and it is left by a wide margin. An answer cut at the requested length is never bad.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from runner.config import Breaker, Canary
from runner.errors import BadAnswers
from runner.records import Expected, Judgement, Outcome, Record, Sample, Severity

AT_LEAST = 12
"""Events that the breaker needs before it may trip."""
RATE_AT_LEAST = 6
"""Samples of a category in the window before its rates are compared with what is expected."""
WORST = 3
"""Bad answers that a message shows."""
_HEAD_IDS, _TAIL_IDS = 48, 24
_TEXT_CHARS = 280


class Event(NamedTuple):
    """One settled sample or unusable answer. `flags` are its flagged reasons that the config
    expects rates of; `ids` the begin and the end of the output, `raw` a bad answer's text."""

    category: str
    bad: bool
    reason: str = ""
    detail: str = ""
    sample_id: str = ""
    flags: tuple[str, ...] = ()
    ids: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    raw: str = ""


class Alarm(Record, frozen=True, kw_only=True):
    """Why the answers are not good enough: `count` of `of` events, mainly for `reason`."""

    reason: str
    count: int
    of: int
    allowed: str
    found: dict[str, int]
    worst: list[Event]


class Tripped(Exception):
    """The breaker tripped: stop sending."""

    def __init__(self, alarm: Alarm) -> None:
        self.alarm = alarm
        super().__init__(alarm.reason)


def event_of(judgement: Judgement, sample: Sample, expected: Expected) -> Event:
    """A settled sample as the watch sees it."""
    failed = {v.reason: v for v in judgement.verdicts.values() if v.outcome is Outcome.FAIL}
    rejects = [v for v in failed.values() if v.severity == Severity.REJECT]
    flags = tuple(reason for reason in failed if reason in expected.rates)
    worst = rejects[0] if rejects else next((failed[reason] for reason in flags), None)
    tail = sample.output_ids[_HEAD_IDS:][-_TAIL_IDS:]
    return Event(
        category=sample.category,
        bad=bool(rejects),
        reason=worst.reason if worst else "",
        detail=worst.detail if worst else "",
        sample_id=sample.sample_id,
        flags=flags,
        ids=(tuple(sample.output_ids[:_HEAD_IDS]), tuple(tail)),
    )


class Watch:
    """The last events: the canary is judged by all of its wave, the breaker by its window. One for
    an attempt."""

    def __init__(
        self,
        breaker: Breaker,
        expected: Mapping[str, Expected],
        *,
        canary: Canary | None = None,
    ) -> None:
        self._breaker = breaker
        self._expected = expected
        wave = canary.count if canary is not None else 0
        self._events: deque[Event] = deque(maxlen=max(breaker.window, wave))

    def saw(self, judgement: Judgement, sample: Sample) -> None:
        """One more settled sample. Raises Tripped."""
        expected = self._expected.get(sample.category, Expected())
        self._add(event_of(judgement, sample, expected))

    def saw_fault(
        self, reason: str, detail: str, *, category: str, sample_id: str, raw: str
    ) -> None:
        """One more unusable answer. Raises Tripped."""
        event = Event(category, True, reason, detail, sample_id, raw=raw[:_TEXT_CHARS])
        self._add(event)

    def _add(self, event: Event) -> None:
        self._events.append(event)
        breaker = self._breaker
        if breaker.enabled and len(self._events) >= min(AT_LEAST, breaker.window):
            self._trip_over(list(self._events)[-breaker.window :], breaker.max_rejected)

    def check_canary(self, canary: Canary) -> None:
        """After the first wave. Raises Tripped."""
        if self._events:
            self._trip_over(list(self._events), canary.max_rejected)

    def _trip_over(self, events: list[Event], limit: float) -> None:
        alarm = alarm_of(events, limit, self._expected)
        if alarm is not None:
            raise Tripped(alarm)

    def forget(self) -> None:
        """Begin a new window: the server is another one, or was looked at."""
        self._events.clear()


def alarm_of(events: list[Event], limit: float, expected: Mapping[str, Expected]) -> Alarm | None:
    """Whether these events are too bad, and why. Pure."""
    bad = [event for event in events if event.bad]
    if len(bad) > limit * len(events):
        counts = Counter(event.reason for event in bad)
        main = counts.most_common(1)[0][0]
        return Alarm(
            reason=main,
            count=len(bad),
            of=len(events),
            allowed=f"at most {limit:.0%} rejected or unusable",
            found=dict(counts.most_common()),
            worst=sorted(bad, key=lambda event: event.reason != main)[:WORST],
        )
    return _rate_alarm(events, expected)


def _rate_alarm(events: list[Event], expected: Mapping[str, Expected]) -> Alarm | None:
    """A flagged reason whose rate in a category is beyond half-way from what is expected to all."""
    for category, wanted in expected.items():
        here = [event for event in events if event.category == category]
        for reason, rate in wanted.rates.items():
            having = [event for event in here if reason in event.flags]
            if len(here) >= RATE_AT_LEAST and len(having) > (1 + rate) / 2 * len(here):
                return Alarm(
                    reason=reason,
                    count=len(having),
                    of=len(here),
                    allowed=f"about {rate:.0%} of {category}, and never more than "
                    f"{(1 + rate) / 2:.0%} (category.parts.{category}.expected.rates.{reason})",
                    found={reason: len(having)},
                    worst=having[:WORST],
                )
    return None


def bad_answers(what: str, alarm: Alarm, decode: Callable[[list[int]], str]) -> BadAnswers:
    """The error that stops a run: the main reason first, then the worst answers, decoded."""
    found = ", ".join(f"{n} x {reason}" for reason, n in alarm.found.items())
    shown = [f"\n          {line}" for event in alarm.worst for line in _shown(event, decode)]
    return BadAnswers(
        f"{what}, mainly for {alarm.reason}: {alarm.count} of the last {alarm.of} answers.",
        found=found + "".join(shown),
        allowed=alarm.allowed,
        next_step="mend the server, then run the same command again: it asks only for what is "
        "owed; python -m runner.runs decode latest "
        f"--reason {alarm.reason} shows such samples that were kept",
    )


def _shown(event: Event, decode: Callable[[list[int]], str]) -> list[str]:
    head, tail = event.ids
    if event.raw:
        text = repr(event.raw)
    else:
        parts = [_decoded(list(ids), decode) for ids in (head, tail) if ids]
        text = " ... ".join(parts)
    return [f"{event.sample_id}: {event.reason}: {event.detail}"[:_TEXT_CHARS], f"  {text}"]


def _decoded(ids: list[int], decode: Callable[[list[int]], str]) -> str:
    """Text of ids that may be anything: ids that have no text are shown as numbers."""
    try:
        text = decode(ids)
    except (OverflowError, IndexError, KeyError, TypeError, ValueError):
        text = ""
    return repr(text)[: _TEXT_CHARS // 2] if text else str(ids[:24])
