"""Room on the disk: refused when the likely does not fit, warned of when the most would not."""

from pathlib import Path

import pytest

from runner.errors import MachineError
from runner.ledger import OwedPart
from runner.space import MARGIN_BYTES, Need, compare, need_of, shares_of

GB = 10**9


def need(samples: int = 1000, *, made: float | None = None, expected: int | None = None) -> Need:
    owed = {"B4": OwedPart(samples=samples, prompt_tokens=samples * 100)}
    return need_of(shares_of(owed, {"B4": expected}, made_mean=made, most_tokens=1000))


def test_what_the_config_expects_goes_before_what_the_run_has_made() -> None:
    assert need(expected=500).likely == need(expected=500, made=900).likely
    assert need(made=500).likely == need(expected=500).likely
    assert need(expected=5000).likely == need(expected=1000).likely == need().most


def test_without_a_length_nothing_is_likely() -> None:
    assert need().likely is None
    assert need(0).likely == 0


def test_what_fits_is_passed_over_in_silence() -> None:
    assert compare(need(expected=500), GB, Path()) == ""


def test_what_is_likely_and_does_not_fit_stops() -> None:
    with pytest.raises(MachineError, match="no room"):
        compare(Need(likely=GB, most=2 * GB), GB, Path())


def test_what_is_only_possible_warns() -> None:
    assert "up to 2.0 GB" in compare(Need(likely=None, most=2 * GB), GB, Path())
    assert "up to 2.0 GB" in compare(Need(likely=GB, most=2 * GB), GB + MARGIN_BYTES, Path())
