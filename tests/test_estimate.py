"""What is still to come: sums, intervals, and that a wider doubt gives a wider interval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import Cost
from runner.estimate import Length, Range, estimate, lengths_of, lines, spread, tokens_to_come
from runner.performance import Performance
from runner.records import Judgement


def speed(tokens_per_s: float | None = 1000.0, **more: object) -> Performance:
    given_ = {"held_s": 60.0, "steady_s": 30.0, "output_tokens": 1, "prompt_tokens": 1}
    return Performance(**given_, output_tokens_per_s=tokens_per_s, requests_per_s=10.0, **more)


MEASURED = Length(count=100, mean=200.0, variance=10_000.0)


def rest(**more: object) -> object:
    values = {"owing": {"A": 1800}, "lengths": {"A": MEASURED}, "told": {}, "speed": speed()}
    values |= {"cost": Cost(), "bytes_per_sample": 50.0, **more}
    return estimate(**values)


def test_hours_are_tokens_by_speed() -> None:
    made = rest()
    assert made.output_tokens.middle == 360_000
    assert made.hours.middle == pytest.approx(0.1)
    assert made.disk_bytes == 90_000
    assert made.samples == 1800


def test_the_interval_is_around_the_middle_and_never_negative() -> None:
    made = rest()
    assert 0 < made.hours.low < made.hours.middle < made.hours.high


def test_gpu_hours_and_cost_follow() -> None:
    made = rest(speed=speed(gpus=8), cost=Cost(gpu_hour=2.5))
    assert made.gpu_hours.middle == pytest.approx(0.8)
    assert made.cost.middle == pytest.approx(2.0)
    assert made.cost.high / made.cost.middle == pytest.approx(made.hours.high / made.hours.middle)


def test_without_gpus_there_is_no_cost() -> None:
    made = rest(cost=Cost(gpu_hour=2.5))
    assert (made.gpu_hours, made.cost) == (None, None)


def test_without_a_speed_there_is_no_estimate() -> None:
    assert rest(speed=speed(None)) is None


def test_a_budget_cuts_it_off() -> None:
    made = rest(most_tokens=36_000.0)
    assert made.output_tokens == Range(low=36_000.0, middle=36_000.0, high=36_000.0)
    assert made.hours.middle == pytest.approx(0.01)


def test_a_spent_budget_leaves_nothing() -> None:
    assert rest(most_tokens=-5.0).output_tokens.middle == 0.0


def test_a_category_that_was_not_met_counts_by_its_config_with_doubt() -> None:
    mean, deviation = tokens_to_come({"B": 10}, {}, {"B": 300})
    assert (mean, deviation) == (3000.0, 1500.0)


def test_one_of_which_nothing_is_known_counts_as_the_others() -> None:
    assert tokens_to_come({"B": 10}, {"A": MEASURED}, {})[0] == 2000.0


def test_more_answers_make_it_surer() -> None:
    few = tokens_to_come({"A": 1000}, {"A": Length(count=10, mean=200.0, variance=1e4)}, {})[1]
    assert tokens_to_come({"A": 1000}, {"A": MEASURED}, {})[1] < few


@given(st.floats(0, 1e12), st.floats(0, 3))
def test_an_interval_holds_its_middle(middle: float, relative: float) -> None:
    found = spread(middle, relative)
    assert 0 <= found.low <= middle <= found.high


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40))
def test_lengths_are_exact(values: list[int]) -> None:
    found = lengths_of(judgement(tokens) for tokens in values)["A"]
    mean = sum(values) / len(values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(mean)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    assert found.variance == pytest.approx(variance, rel=1e-6, abs=1e-3)


def judgement(output_tokens: int) -> Judgement:
    known = {"category": "A", "output_tokens": output_tokens}
    blank = {"int": 0, "str": "", "bool": False, "dict": {}, "list": []}
    fields = {
        field.name: known.get(field.name, blank.get(getattr(field.type, "__name__", ""), ""))
        for field in __import__("msgspec").structs.fields(Judgement)
        if field.required
    }
    return Judgement(**{**fields, **known})


def test_a_person_reads_minutes_below_an_hour() -> None:
    assert any("minutes" in line for line in lines(rest()))
    assert any("hours" in line for line in lines(rest(owing={"A": 180_000})))
