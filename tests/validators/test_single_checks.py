"""What the corpus does not show: loops by property, text, lengths, answers, duplicates."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.records import Expected, Outcome
from tests.validators.corpus import CORPUS
from tests.validators.make import (
    DEFAULT,
    failures,
    judge_of,
    judged,
    prompt_of,
    sample_of,
    verdict_on,
)
from validators.answer import final_answer
from validators.degeneration import (
    MAX_PERIOD,
    REPEATED_AT_LEAST,
    SHORT_AT_LEAST,
    SHORT_PERIOD,
    SHORT_ROUNDS,
    find_loop,
    longest_run,
)

SEEN_HERE = {
    "extra_bos", "wrong_tail", "smuggled", "control_tokens", "prompt_unassigned",  # test_prompt
    "cached_over_prompt", "weights_changed", "few_distinct", "drift", "short", "moved",
    "same_output", "same_sample", "same_prompt", "wrong_answer", "no_answer",
}  # fmt: skip


def test_every_reason_code_has_a_test() -> None:
    in_corpus = {reason for case in CORPUS for reason in case.fails.values()}
    declared = {reason for entry in DEFAULT.values() for reason in entry["severity"]}
    assert declared - in_corpus - SEEN_HERE == set()


@pytest.mark.parametrize(
    ("told", "known", "fails"),
    [
        ("v2", {"v1"}, True),
        ("v1+v2", {"v1"}, True),
        ("v1", {"v1"}, False),
        ("", {"v1"}, False),
        ("v2", set(), False),
    ],
)
def test_weights_are_those_of_the_run(told: str, known: set[str], fails: bool) -> None:
    judgement = judged("qwen3", "It is.<|im_end|>", weight_version=told, weights=frozenset(known))
    assert failures(judgement) == ({"contract": "weights_changed"} if fails else {})
    assert judgement.rejected is fails


def unlike(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(1000, 150_000, n).tolist()


def needed(period: int) -> int:
    if 1 < period <= SHORT_PERIOD:
        return max(SHORT_ROUNDS * period, SHORT_AT_LEAST)
    return max(2 * period, REPEATED_AT_LEAST)


@settings(max_examples=120)
@given(
    period=st.one_of(st.integers(1, 40), st.integers(1, MAX_PERIOD)),
    extra=st.integers(0, 300),
    before=st.integers(0, 700),
    after=st.integers(0, 700),
    seed=st.integers(0, 99),
)
def test_every_loop_is_found_wherever_it_lies(period, extra, before, after, seed) -> None:
    repeated = needed(period) + extra
    block = unlike(period, seed)
    loop = (block * (repeated // period + 2))[: period + repeated]
    ids = np.array([*unlike(before, seed + 1), *loop, *unlike(after, seed + 2)], dtype=np.int64)
    found = find_loop(ids, short=period > 1)
    assert found is not None
    assert found[0] == period
    assert found[2] >= repeated


@settings(max_examples=60)
@given(period=st.integers(1, 500), seed=st.integers(0, 99))
def test_a_shorter_repetition_is_no_loop(period, seed) -> None:
    repeated = needed(period) - 1
    block = unlike(period, seed)
    loop = (block * (repeated // period + 2))[: period + repeated]
    ids = np.array([*unlike(300, seed + 1), *loop, *unlike(300, seed + 2)], dtype=np.int64)
    assert find_loop(ids, short=period > 1) is None


def test_ordinary_ids_have_no_loop_and_runs_are_measured() -> None:
    assert find_loop(np.array(unlike(20_000), dtype=np.int64)) is None
    assert longest_run(np.array([1, 2, 2, 2, 3, 3])) == (1, 3, 3)


def degeneration(ids: list[int], **changes: object):
    judge = judge_of(
        "kimi_k25", None, *(f"validators.degeneration.{k}={v}" for k, v in changes.items())
    )
    return judge.judge(sample_of(ids)).verdicts["degeneration"]


def test_a_tail_of_a_few_ids_without_a_period() -> None:
    ids = np.random.default_rng(3).integers(50, 60, 2000).tolist()
    assert degeneration(ids).reason == "few_distinct"


def test_what_most_means_is_configured() -> None:
    ids = [7, 7, 8] * 30
    assert degeneration(ids).reason != "single_id"
    assert degeneration(ids, most=0.6).reason == "single_id"


def test_a_short_answer_of_one_id_is_no_degeneration() -> None:
    assert degeneration([0] * 15).outcome is Outcome.PASS


def test_more_cached_tokens_than_the_prompt_has_are_noted() -> None:
    verdict = verdict_on("contract", judged("kimi_k25", "a</think>b<|im_end|>", cached_tokens=999))
    assert (verdict.reason, verdict.severity) == ("cached_over_prompt", "info")


def test_drift_is_information_and_asked_for() -> None:
    output = "⟦64⟧⟦82⟧⟦82⟧⟦72⟧⟦82⟧⟦83⟧⟦64⟧⟦77⟧⟦83⟧</think>x<|im_end|>"  # a word spelt out
    assert verdict_on("text", judged("kimi_k25", output)).outcome is Outcome.PASS
    drift = ("validators.text.drift=true",)
    verdict = verdict_on("text", judged("kimi_k25", output, overrides=drift))
    assert (verdict.reason, verdict.severity) == ("drift", "info")
    same = judged("kimi_k25", "a</think>b<|im_end|>", overrides=drift)
    assert verdict_on("text", same).outcome is Outcome.PASS


def test_a_short_answer_is_noted_where_the_category_has_longer_ones() -> None:
    output = "a</think>b<|im_end|>"
    assert verdict_on("lengths", judged("kimi_k25", output)).outcome is Outcome.PASS
    found = judged("kimi_k25", output, expected=Expected(shortest=10))
    assert verdict_on("lengths", found).reason == "short"
    assert not failures(found)


def judgements(n: int, *, tokens: int = 100, output: str = "", prompt: str = "", row: int = 0):
    judge = judge_of("kimi_k25")
    for i in range(n):
        ids = unlike(tokens, seed=0 if output else row + i + 1)
        one = judge.judge(
            sample_of(ids, sample_id=f"B4-{row + i}-0", prompt_hash=prompt or f"{row + i + 1:032x}")
        )
        yield one


def conclude(*groups, expected: Expected | None = None):
    everything = [one for group in groups for one in group]
    found = judge_of("kimi_k25", expected=expected).conclude(lambda: iter(everything))
    return {(f.reason, f.samples) for f in found}, found


def test_a_category_whose_mean_length_moved() -> None:
    wanted = Expected(output_tokens=1000)
    reasons, found = conclude(judgements(20), expected=wanted)
    assert reasons == {("moved", 20)}
    assert "mean 100" in found[0].detail
    assert conclude(judgements(20), expected=Expected(output_tokens=150))[0] == set()
    assert conclude(judgements(19), expected=wanted)[0] == set()


def test_equal_outputs_of_different_prompts() -> None:
    reasons, found = conclude(judgements(3, output="same"), judgements(5, row=10))
    assert reasons == {("same_output", 3)}
    assert found[0].share == 3 / 8
    assert found[0].examples == ["B4-0-0", "B4-1-0", "B4-2-0"]


def test_judgements_without_a_hash_are_not_taken_for_equal() -> None:
    old = [msgspec.structs.replace(one, output_hash="") for one in judgements(5)]
    assert conclude(old)[0] == set()


def test_short_equal_outputs_are_no_duplicates() -> None:
    assert conclude(judgements(3, output="same", tokens=15))[0] == set()


def test_the_same_prompt_in_several_rows() -> None:
    assert conclude(judgements(2, prompt="a" * 32))[0] == {("same_prompt", 2)}


def test_samples_of_one_prompt_that_came_out_equal() -> None:
    judge = judge_of("kimi_k25")
    same = [judge.judge(sample_of(unlike(50), sample_id=f"B4-7-{k}")) for k in range(3)]
    assert conclude(same)[0] == {("same_sample", 3)}


def test_a_set_level_check_that_breaks_is_a_finding() -> None:
    def broken():
        raise OSError("gone")

    found = judge_of("kimi_k25").conclude(broken)
    assert {f.severity for f in found} == {"error"}


def answered(text: str, wanted: str):
    output = f"Hm.</think>{text}<|im_end|>"
    return verdict_on("answer", judged("kimi_k25", output, prompt=prompt_of(answer=wanted)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4", "4"),
        ("It is 4.", "4"),
        ("So it is $1,234.", "1234"),
        ("The answer is 4.0", "4"),
        (r"Therefore \boxed{\frac{1}{2}}", "1/2"),
        (r"\boxed{0.5}", r"\frac{1}{2}"),
        (r"\boxed{2\sqrt{2}}", r"\sqrt{8}"),
        ("The final answer is: Paris.", "Paris"),
        ("−3", "-3"),
    ],
)
def test_an_answer_that_is_the_reference(text: str, wanted: str) -> None:
    verdict = answered(text, wanted)
    assert (verdict.outcome, verdict.score) == (Outcome.PASS, 1.0)


@pytest.mark.parametrize(
    ("text", "wanted", "reason"),
    [
        ("It is 5.", "4", "wrong_answer"),
        (r"\boxed{\frac{1}{3}}", "1/2", "wrong_answer"),
        ("I don't know.\nSorry.", "4", "no_answer"),
    ],
)
def test_an_answer_that_is_not(text: str, wanted: str, reason: str) -> None:
    verdict = answered(text, wanted)
    assert (verdict.reason, verdict.severity, verdict.score) == (reason, "info", 0.0)


def test_an_expression_that_would_take_for_ever_is_not_compared() -> None:
    assert answered(r"\boxed{9^{9^{9^{9}}}}", r"\sqrt{8}").outcome is Outcome.SKIP


def test_no_reference_no_verdict() -> None:
    assert answered("4", "").outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{a{b}c} and \boxed{d}", "d"),
        (r"\boxed{open", "open"),
        ("1, 2, 30", "30"),
        ("yes", "yes"),
        ("a\nb", ""),
        ("", ""),
    ],
)
def test_what_counts_as_the_final_answer(text: str, found: str) -> None:
    assert final_answer(text) == found


def test_the_score_of_tool_calls_is_the_share_of_good_ones() -> None:
    from tests.validators.corpus import LOOK

    call = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
    calls = "".join(
        call.format(f"{name}:{i}", arguments)
        for i, (name, arguments) in enumerate(
            [("look", '{"at": "a"}'), ("look", "{"), ("hear", "{}"), ("look", '{"at": "b"}')]
        )
    )
    section = f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    found = judged("kimi_k25", f"a</think>{section}<|im_end|>", prompt=prompt_of(tools=[LOOK]))
    verdict = verdict_on("tool_calls", found)
    assert (verdict.score, verdict.weight, verdict.reason) == (0.5, 4, "bad_json")


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}])
def test_a_tool_whose_schema_is_broken_judges_no_arguments(schema) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    call = "<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    section = f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"
    found = judged("kimi_k25", f"a</think>{section}<|im_end|>", prompt=prompt_of(tools=[tool]))
    assert verdict_on("tool_calls", found).outcome is Outcome.PASS
