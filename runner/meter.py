"""What the answers of one attempt tell of the server's speed, folded as they come.

Three windows of the bulk (canary and probe are none of it), by events and not by guesses:

    warm-up   until as many answers came as requests were in flight at most: one turnover
    steady    from then until the last request that there was went out
    tail      from then to the end: the server empties

A run too short for a turnover before its last request has no steady window. Memory is bounded:
times are counted by their value, rounded to three digits.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import floor, log10

import msgspec

from runner.records import NOT_TOLD, Completion, Record
from runner.stats import Distribution

LATEST = 200
"""Answers over which "what an answer takes now" is the middle."""


class Totals(Record, frozen=True, kw_only=True):
    """Sums over answers. `cached_tokens` are prompt tokens that a prefix cache had."""

    answers: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    retractions: int = 0

    def plus(self, got: Completion) -> "Totals":
        return Totals(
            answers=self.answers + 1,
            prompt_tokens=self.prompt_tokens + got.prompt_tokens,
            output_tokens=self.output_tokens + got.completion_tokens,
            cached_tokens=self.cached_tokens + max(0, got.cached_tokens),
            retractions=self.retractions + max(0, got.retractions),
        )

    def minus(self, other: "Totals") -> "Totals":
        fields = [field.name for field in msgspec.structs.fields(Totals)]
        return Totals(**{name: getattr(self, name) - getattr(other, name) for name in fields})


class Mark(Record, frozen=True, kw_only=True):
    """A moment and the sums until then."""

    at_s: float
    totals: Totals


class Meter:
    """Fed by the sender. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.totals = Totals()
        self.began: Mark | None = None
        self.steady: Mark | None = None
        self.emptying: Mark | None = None
        self.ended: Mark | None = None
        self.latency_ms = Distribution()
        """Of the answers in the steady window."""
        self.first_token_ms = Distribution()
        self.in_flight_s = 0.0
        """Requests in flight, integrated over the steady window."""
        self._most_in_flight = self._in_flight = 0
        self._moved_s = 0.0
        self._latest: deque[float] = deque(maxlen=LATEST)

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """What happens inside is the bulk."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """The bulk begins."""
        self.began = self._mark()
        self._most_in_flight = self._in_flight

    def exhaust(self) -> None:
        """The last request that there was went out. Only the first call counts."""
        if self.emptying is None and self.began is not None:
            self._integrate()
            self.emptying = self._mark()

    def end(self) -> None:
        """The bulk is over."""
        self.ended = self._mark()

    def sent(self) -> None:
        """A request goes out."""
        self._integrate()
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)

    def back(self) -> None:
        """It came back, with an answer or without."""
        self._integrate()
        self._in_flight -= 1

    def answered(self, got: Completion, latency_s: float) -> None:
        """A usable answer."""
        self.totals = self.totals.plus(got)
        self._latest.append(latency_s)
        if self.began is None:
            return
        if self.steady is None and self.emptying is None:
            turned = self.totals.answers - self.began.totals.answers
            if turned >= max(1, self._most_in_flight):
                self.steady = self._mark()
        elif self.steady is not None and self.emptying is None:
            self.latency_ms.add(rounded(latency_s * 1000))
            if got.first_token_s != NOT_TOLD:
                self.first_token_ms.add(rounded(got.first_token_s * 1000))

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def latency_s(self) -> float:
        """The middle of the latest answers' times; 0 before there was one."""
        latest = sorted(self._latest)
        return latest[len(latest) // 2] if latest else 0.0

    def _mark(self) -> Mark:
        return Mark(at_s=self._clock(), totals=self.totals)

    def _integrate(self) -> None:
        now = self._clock()
        if self.steady is not None and self.emptying is None:
            since = max(self._moved_s, self.steady.at_s)
            self.in_flight_s += self._in_flight * (now - since)
        self._moved_s = now


def rounded(value: float) -> int:
    """To three digits: 12345 -> 12300. At least 0."""
    if value < 1000:
        return max(0, round(value))
    unit: int = 10 ** (floor(log10(value)) - 2)
    return round(value / unit) * unit
