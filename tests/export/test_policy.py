"""What is exported is decided from the judgement alone, and every decision has a name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.export.policy import (
    LeftOut,
    Policy,
    check_names,
    decide,
    findings_of,
    flags_of,
    kept_output,
    opinion_of,
    parse_scores,
    parse_split,
)
from runner.records import JudgedVerdict, Judgement, Outcome
from tests.runs.conftest import PASSING, failing

JUDGEMENT = Judgement(
    sample_id="B4-0-0",
    prompt_hash="0" * 32,
    category="B4",
    try_=0,
    finish="stop",
    prompt_tokens=10,
    output_tokens=20,
    reasoning_tokens=5,
    answer_tokens=14,
    tool_call_tokens=0,
    rejected=False,
    verdicts={},
)
BROKEN = JudgedVerdict(outcome=Outcome.ERROR, reason="validator_error")
SCORED = JudgedVerdict(outcome=Outcome.FAIL, reason="schema", severity="flag", score=0.5)


def judged(**changes: object) -> Judgement:
    return msgspec.structs.replace(JUDGEMENT, **changes)


def decided(judgement: Judgement, **policy: object) -> LeftOut | None:
    chosen = Policy(**policy)
    return decide(judgement, opinion_of(judgement.verdicts, chosen), chosen)


REJECTED = judged(verdicts={"vocab": failing("unassigned", "reject")})
FLAGGED = judged(verdicts={"finish": failing("length_in_think"), "contract": PASSING})


def test_a_sample_without_findings_is_exported() -> None:
    assert decided(judged(verdicts={"contract": PASSING})) is None


def test_a_rejected_sample_is_left_out_with_its_reason() -> None:
    assert decided(REJECTED) == LeftOut("rejected", "vocab.unassigned")


@pytest.mark.parametrize("name", ["reject", "unassigned", "vocab.unassigned"])
def test_keep_excuses_a_rejection_by_any_of_its_names(name: str) -> None:
    assert decided(REJECTED, keep=[name]) is None


def test_a_cut_and_flagged_sample_is_exported_by_default() -> None:
    assert decided(msgspec.structs.replace(FLAGGED, finish="length")) is None


@pytest.mark.parametrize("name", ["flag", "length_in_think", "finish.length_in_think"])
def test_drop_leaves_out_by_any_name(name: str) -> None:
    assert decided(FLAGGED, drop=[name]) == LeftOut("dropped", "finish.length_in_think")


def test_keep_is_stronger_than_drop() -> None:
    assert decided(FLAGGED, drop=["flag"], keep=["length_in_think"]) is None


def test_keep_of_one_finding_does_not_excuse_another() -> None:
    both = judged(verdicts={"a": failing("x"), "b": failing("y")})
    assert decided(both, drop=["flag"], keep=["x"]) == LeftOut("dropped", "b.y")


def test_a_broken_validator_leaves_nobody_out_unless_asked() -> None:
    broken = judged(verdicts={"text": BROKEN})
    assert decided(broken) is None
    assert decided(broken, drop=["error"]) == LeftOut("dropped", "text.validator_error")


def test_flags_name_what_a_sample_is_exported_with_but_not_mere_information() -> None:
    verdicts = {"a": failing("x"), "b": failing("y", "info"), "c": BROKEN, "d": PASSING}
    assert flags_of(findings_of(verdicts)) == "a.x c.validator_error"


def test_category_finish_and_score() -> None:
    assert decided(judged(), categories=["B1"]) == LeftOut("category", "B4")
    assert decided(judged(), finish="length") == LeftOut("finish", "stop")
    scored = judged(verdicts={"tool_calls": SCORED})
    assert decided(scored, min_scores={"tool_calls": 0.6}) == LeftOut("low_score", "tool_calls")
    assert decided(scored, min_scores={"tool_calls": 0.5}) is None


def test_what_was_not_scored_is_not_zero() -> None:
    unscored = judged(verdicts={"tool_calls": JudgedVerdict(outcome=Outcome.SKIP)})
    assert decided(unscored, min_scores={"tool_calls": 0.9, "answer": 0.9}) is None


def test_too_long_is_dropped_or_cut() -> None:
    assert decided(judged(), max_length=29) == LeftOut("too_long", "over 29 tokens")
    assert decided(judged(), max_length=30) is None
    assert decided(judged(), max_length=29, over_length="cut") is None


def test_what_a_cut_leaves_nothing_of_is_left_out() -> None:
    found = decided(judged(), max_length=10, over_length="cut")
    assert found is not None
    assert found.reason == "too_short"


def test_an_empty_output_is_left_out_since_its_mask_would_be_all_zero() -> None:
    found = decided(judged(output_tokens=0))
    assert found is not None
    assert found.reason == "too_short"


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(2, 6000))
def test_a_cut_sample_fits_and_loses_no_more_than_it_must(prompt: int, output: int, most: int):
    kept = kept_output(prompt, output, Policy(max_length=most))
    assert 0 <= kept <= output
    assert kept == 0 or prompt + kept <= most
    assert kept == output or prompt + kept + 1 > most


def test_a_split_is_parsed() -> None:
    assert parse_split("train=0.98,eval=0.02") == {"train": 0.98, "eval": 0.02}
    assert parse_split("train=1") == {"train": 1.0}


@pytest.mark.parametrize(
    "text", ["", "train", "train=0.5", "a=0.5,a=0.5", "a=1.5,b=-0.5", "../x=1", "a=0,b=1", "a=nan"]
)
def test_what_is_no_split_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--split"):
        parse_split(text)


def test_scores_are_parsed_and_checked() -> None:
    assert parse_scores(["tool_calls=0.5"], ["tool_calls"]) == {"tool_calls": 0.5}
    for bad in ("tools=0.5", "tool_calls", "tool_calls=2", "tool_calls=nan"):
        with pytest.raises(ConfigError, match="--min-score"):
            parse_scores([bad], ["tool_calls"])


def test_an_unknown_reason_is_refused_and_the_known_ones_are_named() -> None:
    reasons = {"finish": ["length_in_think"], "vocab": ["unassigned"]}
    for good in ("flag", "error", "unassigned", "finish.length_in_think", "validator_error"):
        check_names("--drop", [good], reasons)
    with pytest.raises(ConfigError, match=r"vocab\.unassigned"):
        check_names("--drop", ["vocab.length_in_think"], reasons)
