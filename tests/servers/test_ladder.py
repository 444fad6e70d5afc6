"""The out-of-memory ladder: it only ever asks for less."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.servers.ladder import lowered, next_rung

LADDER: list[dict[str, Any]] = [
    {"mem-fraction-static": 0.8},
    {"mem-fraction-static": 0.7, "max-running-requests": 64},
]


def test_a_flag_that_is_not_set_is_set() -> None:
    assert lowered({}, LADDER[0]) == {"mem-fraction-static": 0.8}


def test_a_higher_value_is_lowered_under_the_name_that_the_config_used() -> None:
    assert lowered({"mem_fraction_static": 0.9}, LADDER[0]) == {"mem_fraction_static": 0.8}


def test_a_lower_value_stays() -> None:
    assert lowered({"mem-fraction-static": 0.6}, LADDER[0]) == {"mem-fraction-static": 0.6}


@pytest.mark.parametrize("rung", [{"x": -1}, {"x": 0}])
def test_a_value_that_means_automatic_or_none_is_not_less(rung: dict[str, Any]) -> None:
    assert lowered({"x": 8}, rung) == {"x": 8}


def test_a_word_and_a_switch_are_set_as_the_rung_says() -> None:
    assert lowered({"a": True, "b": "x"}, {"a": False, "b": "y"}) == {"a": False, "b": "y"}


def test_rungs_are_taken_in_order_and_end() -> None:
    flags, taken = next_rung({}, LADDER, 0) or ({}, -1)
    assert (flags, taken) == ({"mem-fraction-static": 0.8}, 1)
    flags, taken = next_rung(flags, LADDER, taken) or ({}, -1)
    assert (flags, taken) == ({"mem-fraction-static": 0.7, "max-running-requests": 64}, 2)
    assert next_rung(flags, LADDER, taken) is None


def test_a_rung_that_changes_nothing_is_passed_over() -> None:
    flags = {"mem-fraction-static": 0.75}
    assert next_rung(flags, LADDER, 0) == (
        {"mem-fraction-static": 0.7, "max-running-requests": 64},
        2,
    )


numbers = st.integers(1, 1000) | st.floats(0.01, 1.0)


@given(
    st.dictionaries(st.sampled_from("abc"), numbers),
    st.dictionaries(st.sampled_from("abc"), numbers),
)
def test_no_number_ever_rises(flags: dict[str, Any], rung: dict[str, Any]) -> None:
    after = lowered(flags, rung)
    assert all(after[name] <= value for name, value in flags.items())
