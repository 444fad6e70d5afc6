"""Curves over the time that was worked."""

from hypothesis import given
from hypothesis import strategies as st

from runner.records import RunStatus
from runner.report.series import POINTS_MAX, Point, thinned, timeline_of
from runner.tracking.events import Event, Status
from tests.report.conftest import begun, point


def ended(at: float, status: RunStatus = RunStatus.DONE) -> Status:
    return Status(at=at, status=status)


TWO_ATTEMPTS: list[Event] = [
    *begun(100.0),
    point(105.0, 10, done=1),
    ended(110.0, RunStatus.INTERRUPTED),
    *begun(5000.0, 2),
    point(5005.0, 30, done=3),
    ended(5020.0),
]


def test_the_pause_between_attempts_takes_no_room() -> None:
    timeline = timeline_of(TWO_ATTEMPTS)
    assert timeline.curves["done"] == [Point(5.0, 1.0), Point(15.0, 3.0)]
    assert timeline.span_s == 30.0
    assert [(s.attempt, s.offset_s, s.status, s.tokens) for s in timeline.stints] == [
        (1, 0.0, RunStatus.INTERRUPTED, 10),
        (2, 10.0, RunStatus.DONE, 30),
    ]


def test_a_moment_between_attempts_has_no_place() -> None:
    timeline = timeline_of(TWO_ATTEMPTS)
    assert timeline.place(5001.0) == 11.0
    assert timeline.place(2000.0) is None


def test_an_attempt_that_was_killed_ends_with_its_last_event() -> None:
    events = [*begun(0.0), point(7.0, 1, done=1), *begun(100.0, 2)]
    assert [s.worked_s for s in timeline_of(events).stints] == [7.0, 0.0]


def test_final_figures_and_numbers_that_are_none_are_no_curves() -> None:
    values = {"final/B4/samples": 3.0, "x": float("nan"), "y": float("inf")}
    assert timeline_of([*begun(0.0), point(1.0, 1, **values)]).curves == {}


def test_without_events_there_is_nothing() -> None:
    timeline = timeline_of([])
    assert (timeline.curves, timeline.stints, timeline.span_s) == ({}, [], 0.0)


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    timeline = timeline_of([*begun(100.0), point(50.0, 1, done=1)])
    assert timeline.curves["done"][0].at_s == 0.0


@given(st.lists(st.floats(0, 1e6), max_size=2000))
def test_thinning_keeps_order_bounds_and_size(values: list[float]) -> None:
    points = [Point(float(n), value) for n, value in enumerate(values)]
    thin = thinned(points)
    assert len(thin) == min(len(points), POINTS_MAX)
    assert thin == sorted(thin, key=lambda p: p.at_s)
    if points:
        assert min(values) - 1e-6 <= min(p.value for p in thin)
        assert max(p.value for p in thin) <= max(values) + 1e-6
