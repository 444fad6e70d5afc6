"""The arithmetic under the plots."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from runner.report.plots import (
    TICKS,
    WIDTH,
    Curve,
    bins_of,
    curve_plot,
    histogram,
    log_axis,
    nice_top,
    share_bar,
)
from runner.report.series import Point
from runner.stats import Distribution

LENGTHS = st.lists(st.integers(0, 300_000), min_size=1, max_size=200)


def of(values: list[int]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.add(value)
    return distribution


@given(LENGTHS)
def test_every_length_but_zero_is_in_exactly_one_bin(values: list[int]) -> None:
    distribution = of(values)
    axis = log_axis([distribution])
    bins = bins_of(distribution, axis)
    assert sum(count for _, _, count in bins) == sum(value > 0 for value in values)
    for low, high, count in bins:
        assert count == sum(low <= value < high for value in values if value > 0)


@given(LENGTHS)
def test_the_axis_holds_all_and_has_few_even_ticks(values: list[int]) -> None:
    axis = log_axis([of(values)])
    assert 2 <= len(axis.ticks) <= TICKS
    assert axis.ticks[-1] == 2**axis.last
    for value in values:
        assert 0 <= axis.x(value) <= WIDTH
        assert value == 0 or 2**axis.first <= value <= 2**axis.last


@given(st.floats(1e-6, 1e12))
def test_a_scale_ends_at_a_round_number_that_is_not_far(value: float) -> None:
    assert value * (1 - 1e-6) <= nice_top(value) <= 2 * value


def test_a_scale_of_nothing_ends_at_one() -> None:
    assert nice_top(0) == nice_top(math.inf) == nice_top(-3) == 1.0


def test_a_histogram_marks_median_and_limit() -> None:
    distribution = of([10, 20, 40])
    svg = histogram(distribution, log_axis([distribution]), limit=30, kind="answer", label="<l>")
    root = ElementTree.fromstring(svg)
    names = [element.get("class") for element in root]
    assert names.count("bar") == 3
    assert names.count("median") == names.count("limit") == 1
    assert root.get("aria-label") == "<l>"


def test_a_limit_beyond_the_axis_is_not_drawn() -> None:
    distribution = of([10])
    svg = histogram(distribution, log_axis([distribution]), limit=4096, kind="answer", label="")
    assert "limit" not in svg


def test_a_curve_is_broken_between_attempts_and_tells_every_point() -> None:
    curve = Curve([[Point(0, 1), Point(1, 2)], [Point(2, 3)]], ["a", "b", "<c>"])
    svg = curve_plot(curve, span_s=2, top=3, marks=[(1.5, "attempt 2")], label="x")
    root = ElementTree.fromstring(svg)
    names = [element.get("class") for element in root]
    assert names.count("line") == 2
    assert names.count("restart") == 1
    assert [e[0].text for e in root if e.get("class") == "hit"] == ["a", "b", "<c>"]


def test_a_bar_of_nothing_is_empty() -> None:
    assert len(ElementTree.fromstring(share_bar([("ok", 0)], label=""))) == 0
