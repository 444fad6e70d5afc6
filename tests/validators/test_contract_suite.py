"""What every configured validator promises, over any ids: a verdict, always the same one, with a
declared reason, and nothing changed."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.records import JudgedVerdict, Outcome, Severity
from tests.families.build import profile_named
from tests.families.shapes import FAMILIES
from tests.validators.make import DEFAULT, judge_of, prompt_of, sample_of

NAMES = [name for name in DEFAULT if name != "duplicates"]
TEXT = st.text(max_size=40)
JUDGES = {family: judge_of(family) for family in FAMILIES}


def ids_for(family: str) -> st.SearchStrategy[list[int]]:
    """Ordinary ids, special ones above all, and what no tokenizer has."""
    profile = profile_named(family)
    special = st.sampled_from(sorted(profile.special_tokens))
    odd = st.sampled_from([-1, -(2**31), 2**31 - 1, 2**63, 10**30, profile.vocab_padded])
    return st.lists(st.one_of(st.integers(0, 255), special, special, odd), max_size=60)


@st.composite
def samples(draw, families=tuple(FAMILIES)):
    family = draw(st.sampled_from(families))
    output = draw(ids_for(family)) * draw(st.sampled_from([1, 1, 1, 9]))
    sample = sample_of(
        output,
        input_ids=draw(ids_for(family)),
        finish=draw(st.sampled_from(["stop", "length"])),
        matched_token=draw(st.integers(-1, 300_000)),
        matched_text=draw(TEXT),
        finish_length=draw(st.integers(-1, 100)),
        asked=draw(st.integers(1, 100)),
        cached_tokens=draw(st.integers(-1, 100)),
    )
    roles = st.sampled_from(["system", "user", "assistant", "tool"])
    message = st.fixed_dictionaries({"role": roles, "content": st.one_of(TEXT, st.none())})
    prompt = prompt_of(draw(st.lists(message, min_size=1, max_size=4)), answer=draw(TEXT))
    return family, sample, draw(st.sampled_from([prompt, None]))


@settings(max_examples=300)
@given(samples())
def test_any_ids_give_a_declared_verdict_and_change_nothing(case) -> None:
    family, sample, prompt = case
    before = copy.deepcopy((sample, prompt))
    judge = JUDGES[family]
    first, second = judge.judge(sample, prompt), judge.judge(sample, prompt)
    assert first == second
    assert (sample, prompt) == before
    assert set(first.verdicts) == set(NAMES)
    for name, verdict in first.verdicts.items():
        check_verdict(name, verdict)


def check_verdict(name: str, verdict: JudgedVerdict) -> None:
    assert verdict.outcome is not Outcome.ERROR, f"{name}: {verdict.detail}"
    declared = DEFAULT[name]["severity"]
    if verdict.outcome is Outcome.FAIL:
        assert verdict.severity == declared[verdict.reason]
    else:
        assert verdict.reason == verdict.severity == ""
    assert verdict.score is None or 0 <= verdict.score <= 1
    assert verdict.weight >= 1
    assert len(verdict.detail) <= 400


@settings(max_examples=50)
@given(samples(("kimi_k25",)))
def test_a_judgement_is_one_line_of_json_that_reads_back(case) -> None:
    family, sample, prompt = case
    judgement = JUDGES[family].judge(sample, prompt)
    line = msgspec.json.encode(judgement)
    assert msgspec.json.decode(line, type=type(judgement)) == judgement
    assert b"\n" not in line


@pytest.mark.parametrize("name", DEFAULT)
def test_the_config_states_every_reason_with_its_default_severity(name: str) -> None:
    configured = {v.name: v for v in JUDGES["kimi_k25"]._all}[name]
    assert DEFAULT[name]["severity"] == {
        reason: Severity(severity).value
        for reason, severity in configured.validator.reasons.items()
    }


def test_a_validator_that_breaks_is_an_error_and_rejects_nothing() -> None:
    class Broken:
        reasons = {"never": Severity.REJECT}

        def check(self, sample, context):
            raise ZeroDivisionError("a bug in a plugin")

    judge = judge_of("kimi_k25")
    one = judge._validators[0]
    judge._validators = [type(one)("broken", Broken(), {})]
    judgement = judge.judge(sample_of([1, 2]))
    assert judgement.verdicts["broken"].outcome is Outcome.ERROR
    assert "a bug in a plugin" in judgement.verdicts["broken"].detail
    assert not judgement.rejected
