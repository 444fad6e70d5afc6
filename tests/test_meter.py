"""The three windows of a run, by events; and what is folded within the steady one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.meter import Meter, Totals, rounded
from runner.records import NOT_TOLD, Completion


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def answer(tokens: int, *, first_token_s: float = NOT_TOLD, retractions: int = 0) -> Completion:
    return Completion(
        rid="r",
        output_ids=[1] * tokens,
        finish="stop",
        prompt_tokens=7,
        completion_tokens=tokens,
        cached_tokens=3,
        retractions=retractions,
        first_token_s=first_token_s,
    )


def play(rounds: int, *, width: int) -> tuple[Meter, Clock]:
    """`width` requests always in flight, one answered each second with 10 tokens after `width`."""
    clock = Clock()
    meter = Meter(clock)
    meter.begin()
    for _ in range(width):
        meter.sent()
    for _ in range(rounds):
        clock.now_s += 1.0
        meter.answered(answer(10, first_token_s=0.25), float(width))
        meter.back()
        meter.sent()
    return meter, clock


def test_warm_up_ends_after_one_turnover() -> None:
    meter, _ = play(3, width=4)
    assert meter.steady is None
    meter, _ = play(4, width=4)
    assert meter.steady is not None
    assert meter.steady.at_s == 104.0


def test_the_tail_begins_with_the_first_call_of_exhaust() -> None:
    meter, clock = play(10, width=4)
    meter.exhaust()
    clock.now_s += 5.0
    meter.exhaust()
    assert meter.emptying is not None
    assert meter.emptying.at_s == 110.0


def test_without_a_turnover_before_the_last_request_nothing_is_steady() -> None:
    meter, clock = play(2, width=4)
    meter.exhaust()
    for _ in range(5):
        clock.now_s += 1
        meter.answered(answer(10), 4.0)
    assert meter.steady is None


def test_only_the_steady_windows_times_are_counted() -> None:
    meter, _ = play(10, width=4)
    meter.exhaust()
    meter.answered(answer(10, first_token_s=9.0), 99.0)
    assert dict(meter.latency_ms.counts) == {4000: 6}
    assert dict(meter.first_token_ms.counts) == {250: 6}


def test_a_first_token_that_is_not_told_is_not_counted() -> None:
    meter, _ = play(10, width=4)
    meter.answered(answer(10), 4.0)
    assert len(meter.first_token_ms) == 6
    assert len(meter.latency_ms) == 7


def test_requests_in_flight_are_averaged_over_the_steady_window() -> None:
    meter, clock = play(10, width=4)
    meter.exhaust()
    clock.now_s += 50.0
    meter.back()
    assert meter.in_flight_s == pytest.approx(4 * 6.0)


def test_sums_can_be_taken_apart() -> None:
    one = Totals().plus(answer(10, retractions=2))
    both = one.plus(answer(5))
    assert both == Totals(
        answers=2, prompt_tokens=14, output_tokens=15, cached_tokens=6, retractions=2
    )
    assert both.minus(one).output_tokens == 5


def test_before_the_bulk_answers_are_in_no_window() -> None:
    meter = Meter(Clock())
    meter.sent()
    meter.answered(answer(10), 1.0)
    meter.exhaust()
    assert meter.emptying is None
    assert meter.totals.answers == 1
    assert meter.latency_s == 1.0


@given(st.floats(0, 1e9))
def test_a_rounded_time_is_off_by_half_a_percent_at_most(value: float) -> None:
    assert abs(rounded(value) - value) <= max(0.5, 0.005 * value)


@given(st.floats(0, 1e9))
def test_rounded_times_have_few_values(value: float) -> None:
    text = str(rounded(value)).rstrip("0")
    assert len(text) <= 3
