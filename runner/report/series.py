"""`metrics.jsonl` as curves over the time that was really worked. Pure apart from reading the file.

A run may be continued days later, so a clock's axis would be mostly pause: the attempts are put one
behind the other. `at_s` counts the seconds of work from the run's beginning.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from runner.records import RunStatus
from runner.tracking import read_from
from runner.tracking.events import Event, Metrics, Status, Tags

POINTS_MAX = 300
"""Points of one curve: more than a screen can show."""
FINAL = "final/"
"""Metrics told once, at the end: not a curve."""


class Point(NamedTuple):
    """One value of a curve."""

    at_s: float
    value: float


class Stint(NamedTuple):
    """One attempt as tracking saw it. `offset_s` is where it begins on the axis of work; `status`
    is "running" for one that never told its end; `tokens` are the run's output tokens so far."""

    attempt: int
    started_at: float
    last_at: float
    offset_s: float
    status: RunStatus
    tokens: int

    @property
    def worked_s(self) -> float:
        return max(0.0, self.last_at - self.started_at)


class Timeline(NamedTuple):
    """All curves by their metric's name, and the attempts that they come from."""

    curves: dict[str, list[Point]]
    stints: list[Stint]

    @property
    def span_s(self) -> float:
        return self.stints[-1].offset_s + self.stints[-1].worked_s if self.stints else 0.0

    def place(self, at: float) -> float | None:
        """Where a moment (unix seconds) lies on the axis; None for one between attempts."""
        for stint in self.stints:
            if stint.started_at <= at <= stint.last_at:
                return stint.offset_s + at - stint.started_at
        return None


def read_timeline(metrics: Path) -> Timeline:
    """The curves of a run; a damaged line is passed over."""
    return timeline_of(event for _, _, event in read_from(metrics) if event is not None)


def timeline_of(events: Iterable[Event]) -> Timeline:
    """Fold events into curves of at most `POINTS_MAX` points."""
    curves: dict[str, list[Point]] = {}
    stints: list[Stint] = []
    for event in events:
        if isinstance(event, Status) and event.status is RunStatus.RUNNING:
            stints.append(_begun(event.at, stints))
        elif stints:
            stints[-1] = _gone_on(stints[-1], event)
            if isinstance(event, Metrics):
                _add(curves, event, stints[-1])
    return Timeline({name: thinned(points) for name, points in curves.items()}, stints)


def _begun(at: float, before: Sequence[Stint]) -> Stint:
    last = before[-1] if before else None
    return Stint(
        attempt=last.attempt + 1 if last else 1,
        started_at=at,
        last_at=at,
        offset_s=last.offset_s + last.worked_s if last else 0.0,
        status=RunStatus.RUNNING,
        tokens=last.tokens if last else 0,
    )


def _gone_on(stint: Stint, event: Event) -> Stint:
    stint = stint._replace(last_at=max(stint.last_at, event.at))
    match event:
        case Status(status=status):
            return stint._replace(status=status)
        case Metrics(step=step):
            return stint._replace(tokens=step)
        case Tags(values=values):
            return stint._replace(attempt=_number(values, stint.attempt))
    return stint


def _number(tags: Mapping[str, str], otherwise: int) -> int:
    told = tags.get("attempt", "")
    return int(told) if told.isdecimal() else otherwise


def _add(curves: dict[str, list[Point]], event: Metrics, stint: Stint) -> None:
    at_s = stint.offset_s + max(0.0, event.at - stint.started_at)
    for name, told in event.values.items():
        value = float(told)
        if not name.startswith(FINAL) and abs(value) < float("inf"):
            curves.setdefault(name, []).append(Point(at_s, value))


def thinned(points: Sequence[Point], most: int = POINTS_MAX) -> list[Point]:
    """At most `most` points: the means of equal stretches of neighbours."""
    if len(points) <= most:
        return list(points)
    edges = [len(points) * place // most for place in range(most + 1)]
    return [_mean(points[a:b]) for a, b in pairwise(edges)]


def _mean(points: Sequence[Point]) -> Point:
    size = len(points)
    return Point(sum(p.at_s for p in points) / size, sum(p.value for p in points) / size)
