"""The order of sending: the plan's, but for a bounded window at the end, long ones first."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runner.records import OwedSample
from runner.tail import MEASURED, expected_lengths, long_ones_first, window_size

LENGTHS = {"short": 10.0, "middle": 100.0, "long": 1000.0}


def sample(number: int, category: str) -> OwedSample:
    return OwedSample(
        sample_id=f"{category}-{number}-0",
        prompt=number,
        prompt_hash="0" * 16,
        category=category,
        row=number,
        k=0,
        prompt_tokens=5,
    )


MIXES = st.lists(st.sampled_from(list(LENGTHS)), max_size=60).map(
    lambda names: [sample(n, name) for n, name in enumerate(names)]
)


def arranged(planned: list[OwedSample], window: int) -> list[OwedSample]:
    return list(long_ones_first(iter(planned), lambda: window, lambda: LENGTHS))


@given(MIXES, st.integers(0, 80))
def test_nothing_is_lost_or_sent_twice(planned: list[OwedSample], window: int) -> None:
    assert Counter(arranged(planned, window)) == Counter(planned)


@given(MIXES, st.integers(0, 80))
def test_before_the_window_it_is_the_order_of_the_plan(
    planned: list[OwedSample], window: int
) -> None:
    before = max(0, len(planned) - window)
    assert arranged(planned, window)[:before] == planned[:before]


@given(MIXES, st.integers(0, 80))
def test_within_the_window_the_long_ones_come_first(planned: list[OwedSample], window: int) -> None:
    end = arranged(planned, window)[max(0, len(planned) - window) :]
    assert all(LENGTHS[a.category] >= LENGTHS[b.category] for a, b in pairwise(end))


@given(MIXES, st.integers(0, 80))
def test_within_a_category_the_order_stays(planned: list[OwedSample], window: int) -> None:
    for name in LENGTHS:
        rows = [s.row for s in arranged(planned, window) if s.category == name]
        assert rows == sorted(rows)


def test_lengths_are_asked_for_when_the_end_is_reached() -> None:
    known: dict[str, float] = {}
    order = long_ones_first(
        iter([sample(0, "long"), sample(1, "short"), sample(2, "long")]), lambda: 2, lambda: known
    )
    assert next(order).row == 0
    known.update(LENGTHS)
    assert [s.row for s in order] == [2, 1]


def test_a_category_of_which_nothing_is_known_changes_nothing() -> None:
    planned = [sample(n, name) for n, name in enumerate(["a", "b", "a", "b"])]
    assert list(long_ones_first(iter(planned), lambda: 4, dict)) == planned


def test_the_window_is_bounded_by_what_is_in_flight_and_by_what_is_owed() -> None:
    assert window_size(32, 1_000_000) == 512
    assert window_size(32, 400) == 100
    assert window_size(32, 3) == 0


def test_what_was_measured_goes_before_what_the_config_says() -> None:
    found = expected_lengths({"A": (MEASURED * 50, MEASURED)}, {"A": 400, "B": 70})
    assert found == {"A": 50.0, "B": 70.0}


def test_few_answers_do_not_outweigh_the_config_but_are_better_than_nothing() -> None:
    assert expected_lengths({"A": (50, 1), "B": (80, 1)}, {"A": 400, "B": None}) == {
        "A": 400.0,
        "B": 80.0,
    }


def test_an_unknown_category_is_taken_for_the_mean_of_the_others() -> None:
    assert expected_lengths({}, {"A": 100, "B": 300, "C": None})["C"] == 200.0
    assert expected_lengths({}, {"A": None}) == {"A": 0.0}
