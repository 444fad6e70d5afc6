import pytest

from runner.errors import ConfigError
from runner.gates import check_gates, measure
from runner.stats import CategoryStats, Stats


def stats(*, ok: int = 8, rejected: int = 2, cut: int = 1) -> Stats:
    whole = Stats()
    one = CategoryStats(ok=ok, rejected=rejected, output_tokens=100)
    one.finish.update({"stop": ok + rejected - cut, "length": cut})
    whole.categories["B4"] = one
    return whole


@pytest.mark.parametrize(
    ("name", "limit", "passed"),
    [
        ("rejected", "<= 0.2", True),
        ("rejected", "< 0.2", False),
        ("B4/truncated", "<= 0.05", False),
        ("B4/truncated", ">= 0.1", True),
        ("mean_output_tokens", "> 9.5", True),
        ("B5/truncated", "<= 1.0", False),  # nothing measured is not passed
    ],
)
def test_a_gate_compares_what_was_measured(name: str, limit: str, passed: bool) -> None:
    (gate,) = measure({name: limit}, stats())
    assert gate.passed is passed


def test_an_unmeasured_gate_has_no_value() -> None:
    (gate,) = measure({"rejected": "<= 1"}, Stats())
    assert gate.measured is None
    assert gate.passed is False


@pytest.mark.parametrize(
    ("name", "limit"),
    [("nothing", "<= 1"), ("B9/rejected", "<= 1"), ("rejected", "about 3"), ("rejected", "1")],
)
def test_a_gate_that_cannot_be_read_is_a_config_error(name: str, limit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_gates({name: limit}, ["B4"])
    assert f"gates.{name}" in str(caught.value)
