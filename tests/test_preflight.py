"""What fits, what stops a run before anything is sent, and a plan brought to a server's limits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.base import EngineInfo
from runner.errors import ConfigError, MachineError
from runner.ledger import count, losses, owed, read_plan, sample_keying
from runner.plansummary import PartSummary, PlanSummary, read_summary
from runner.preflight import (
    BESIDE_THE_LONGEST,
    Limits,
    check_stop_on,
    findings,
    fit,
    histogram,
    lines,
    narrowed,
    refuse,
)
from runner.records import Judgement
from runner.refit import refit
from runner.shards import ShardWriter
from tests.prompts.conftest import config as config  # a fixture
from tests.prompts.conftest import planned as planned  # a fixture
from tests.prompts.test_plan import asks, write
from tests.validators.make import sample_of

SKIP = Limits(context_length=1000, max_new_tokens=400)
CLIP = Limits(context_length=1000, max_new_tokens=400, least=64)
limits = st.builds(
    Limits,
    context_length=st.integers(2, 5000),
    max_new_tokens=st.integers(1, 5000),
    max_input=st.one_of(st.just(-1), st.integers(1, 5000)),
    least=st.integers(0, 5000),
)


@pytest.mark.parametrize(
    ("tokens", "asked", "wanted"),
    [
        (600, SKIP, 400),
        (601, SKIP, 0),
        (600, CLIP, 400),
        (601, CLIP, 399),
        (936, CLIP, 64),
        (937, CLIP, 0),
        (501, Limits(context_length=1000, max_new_tokens=400, max_input=500), 0),
        (501, Limits(context_length=1000, max_new_tokens=400, max_input=500, least=64), 0),
    ],
)
def test_what_fits(tokens: int, asked: Limits, wanted: int) -> None:
    assert fit(tokens, asked).max_new_tokens == wanted
    assert bool(fit(tokens, asked).skip) is (wanted == 0)


@given(st.integers(1, 6000), limits)
def test_what_is_sent_always_fits(tokens: int, asked: Limits) -> None:
    found = fit(tokens, asked)
    if not found.skip:
        assert 0 <= found.max_new_tokens <= asked.max_new_tokens
        assert tokens + found.max_new_tokens <= asked.context_length
        assert asked.max_input < 0 or tokens <= asked.max_input


def test_a_server_only_narrows() -> None:
    assert narrowed(SKIP, EngineInfo(kind="sglang")) == SKIP
    told = EngineInfo(kind="sglang", context_length=8192, max_input_tokens=8186)
    wide = Limits(context_length=8192, max_new_tokens=100)
    # sglang 0.5.23 on a context of 8192: prompt and answer together end at 8190.
    assert narrowed(wide, told).context_length == 8186 + BESIDE_THE_LONGEST == 8190
    assert narrowed(SKIP, told) == msgspec.structs.replace(SKIP, max_input=8186)


def test_a_reason_that_there_is_not_is_a_config_error() -> None:
    check_stop_on(["over_context", "bad_*"])
    with pytest.raises(ConfigError, match="over_contekst"):
        check_stop_on(["over_contekst"])


def test_findings_are_told_whether_they_skip_or_not() -> None:
    part = PartSummary(skipped={"over_context": 2, "duplicate": 3}, duplicates=3, escaped=1)
    assert findings(part) == {"over_context": 2, "duplicate": 3, "special_token_text": 1}
    kept = PartSummary(duplicates=4, clipped=5)
    assert findings(kept) == {"duplicate": 4, "over_context": 5}
    refuse(PlanSummary(parts={"B1": kept}), ["bad_tools"])
    with pytest.raises(MachineError, match="B1: 4 x duplicate"):
        refuse(PlanSummary(parts={"B1": kept}), ["dup*"])


def test_the_table_counts_every_prompt_once() -> None:
    lengths = {"B1": {3: 2, 12: 1}, "a-long-name": {4: 5, 18: 7}}
    head, *rows = histogram(lengths)
    assert head.split()[2:] == ["<16", "<64", "<256", "<1,024", "<4,096", "<16,384", "<65,536",
                                "<262,144"]  # fmt: skip
    assert rows[0].split() == ["B1", "2", "-", "-", "-", "1", "-", "-", "-"]
    assert [sum(int(n) for n in row.split()[1:] if n != "-") for row in rows] == [3, 12]
    assert not list(histogram({"B1": {}}))


@given(st.dictionaries(st.integers(1, 25), st.integers(1, 99), min_size=1))
def test_no_length_falls_off_the_table(counts: dict[int, int]) -> None:
    head, row = histogram({"B1": counts})
    assert len(head.split()) - 2 <= 8
    assert sum(int(n.replace(",", "")) for n in row.split()[1:] if n != "-") == sum(counts.values())


Planned = Callable[..., tuple[Any, PlanSummary]]


@pytest.fixture
def rows(tmp_path: Path) -> list[str]:
    texts = ["Hi", " ", *("word " * n for n in (100, 200, 300, 600))]
    path = write(tmp_path / "p.jsonl", [asks(text) for text in texts])
    return ["source=file", f"source.path={path}", "sampling.max_new_tokens=1000"]


def tokens_of(run: Any, *, skipped: bool) -> list[int]:
    return sorted(
        one.prompt_tokens
        for one in read_plan(run)
        if bool(one.skip) is skipped and one.prompt_tokens and not one.k
    )


def test_a_plan_is_brought_to_a_smaller_server_and_back(planned: Planned, rows: list[str]) -> None:
    resolved, summary = planned(*rows, "category.n=2")
    run = resolved.run
    sent = tokens_of(run, skipped=False)
    assert summary.parts["B4"].prompts == len(sent) == 4
    assert len(tokens_of(run, skipped=True)) == 1

    same = Limits(context_length=2048, max_new_tokens=1000)
    assert refit(run, same, max_attempts=3) is None

    small = Limits(context_length=sent[1] + 1000, max_new_tokens=1000)
    found = refit(run, small, max_attempts=3)
    assert found is not None
    assert found == read_summary(run)
    assert tokens_of(run, skipped=False) == sent[:2]
    part = found.parts["B4"]
    assert (part.prompts, part.longest_tokens, part.skipped["over_context"]) == (2, sent[1], 3)
    assert (part.over.shortest, part.over.room) == (sent[2], sent[1])
    assert sum(part.lengths.values()) == 2
    counts = count(run, "online", max_attempts=3)
    assert (counts.planned, counts.skipped, counts.pending) == (12, 8, 4)
    assert losses(run, "online", max_attempts=3)[1] == {"over_context": 6, "empty_last_turn": 2}
    assert refit(run, small, max_attempts=3) is None

    wide = Limits(context_length=10_000, max_new_tokens=1000)
    found = refit(run, wide, max_attempts=3)
    assert found is not None
    assert found.parts["B4"].prompts == 5
    assert len(list(owed(run, max_attempts=3, retry_failed=False))) == 10
    assert len(tokens_of(run, skipped=True)) == 0
    assert found.parts["B4"].skipped == {"empty_last_turn": 1}


def test_a_sample_that_a_larger_server_made_stays(planned: Planned, rows: list[str]) -> None:
    resolved, _ = planned(*rows)
    run = resolved.run
    longest = max(owed(run, max_attempts=3, retry_failed=False), key=lambda one: one.prompt_tokens)
    made = sample_of([5, 6], sample_id=longest.sample_id, prompt_hash=longest.prompt_hash)
    judged = Judgement(
        sample_id=made.sample_id, prompt_hash=made.prompt_hash, category="B4", try_=0,
        finish="stop", prompt_tokens=3, output_tokens=2, reasoning_tokens=0, answer_tokens=2,
        tool_call_tokens=0, rejected=False, verdicts={},
    )  # fmt: skip
    for folder, record in ((run.samples, made), (run.verdicts("online"), judged)):
        with ShardWriter(folder, keying=sample_keying) as writer:
            writer.put(msgspec.json.encode(record))
    small = Limits(context_length=1011, max_new_tokens=1000)
    refit(run, small, max_attempts=3)
    counts = count(run, "online", max_attempts=3)
    assert (counts.ok, counts.skipped, counts.pending) == (1, 4, 1)
    assert refit(run, small, max_attempts=3) is None


def test_clipping_plans_what_it_can_and_says_so(planned: Planned, rows: list[str]) -> None:
    resolved, summary = planned(*rows, "prompts.over_context=clip")
    part = summary.parts["B4"]
    assert (part.prompts, part.clipped, part.skipped) == (5, 1, {"empty_last_turn": 1})
    assert "clipped to the room that 1 of them leave" in "\n".join(lines(summary))
    narrow = msgspec.structs.replace(
        Limits(context_length=part.longest_tokens + 300, max_new_tokens=1000), least=64
    )
    found = refit(resolved.run, narrow, max_attempts=3)
    assert found is not None
    assert found.parts["B4"].clipped > 1
    assert found.parts["B4"].prompts == 5


def test_clipping_is_another_run(planned: Planned, rows: list[str]) -> None:
    one, other = planned(*rows)[0], planned(*rows, "prompts.over_context=clip")[0]
    assert one.run.path != other.run.path
    assert one.run.path == planned(*rows, "prompts.stop_on=[duplicate]")[0].run.path


@given(st.lists(st.integers(1, 3000), max_size=30), st.integers(0, 30))
def test_the_summaries_of_two_halves_are_that_of_the_whole(tokens: list[int], cut: int) -> None:
    def counted(some: list[int]) -> PartSummary:
        part = PartSummary()
        for one in some:
            if fit(one, SKIP).skip:
                part.leave_out(one, room=SKIP.longest)
            else:
                part.measure(one)
        return part

    both = counted(tokens[:cut])
    both.add(counted(tokens[cut:]))
    assert both == counted(tokens)
