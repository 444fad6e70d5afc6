import pytest

from runner.errors import ConfigError
from runner.gates import check_gates, measure
from runner.records import SetFinding
from runner.stats import CategoryStats, Score, Stats


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


def judged_stats() -> Stats:
    whole = Stats()
    one = CategoryStats(ok=10, flagged=4)
    one.reasons.update({("thinking", "no_close", "flag"): 3, ("text", "drift", "info"): 1})
    one.scores["tool_calls"] = Score()
    one.scores["tool_calls"].add(0.5, 4)
    one.scores["tool_calls"].add(1.0, 4)
    whole.categories["B1"] = one
    whole.categories["B4"] = CategoryStats(ok=10)
    return whole


FINDINGS = [
    SetFinding(validator="duplicates", reason="same_prompt", category="B4", samples=5, share=0.5)
]


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("B1/no_close", 0.3),
        ("no_close", 0.15),
        ("B4/no_close", 0.0),
        ("B1/tool_schema_accuracy", 0.75),
        ("tool_schema_accuracy", 0.75),
        ("flagged", 0.2),
        ("B4/same_prompt", 0.5),
        ("same_prompt", 0.25),
        ("B1/same_prompt", 0.0),
    ],
)
def test_reason_codes_and_scores_are_measured(name: str, measured: float) -> None:
    check_gates({name: "<= 1"}, ["B1", "B4"], ["no_close", "same_prompt"])
    (gate,) = measure({name: "<= 1"}, judged_stats(), FINDINGS)
    assert gate.measured == pytest.approx(measured)
    assert gate.passed


def test_what_was_never_scored_is_not_passed() -> None:
    (gate,) = measure({"answer_accuracy": ">= 0"}, judged_stats())
    assert (gate.measured, gate.passed, gate.failed) == (None, False, True)


def test_a_gate_that_only_warns_never_fails() -> None:
    check_gates({"truncated": "warn <= 0.05"}, ["B4"])
    (gate,) = measure({"truncated": "warn <= 0.05"}, stats())
    assert (gate.passed, gate.warns, gate.failed) == (False, True, False)


def test_a_warning_of_nothing_and_a_number_that_is_none_are_refused() -> None:
    for limit in ("warn", "warn 0.1", "<= 1.2.3", "<= ."):
        with pytest.raises(ConfigError):
            check_gates({"truncated": limit}, ["B4"])
