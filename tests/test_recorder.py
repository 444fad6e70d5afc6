"""What is counted is what is durable, and at an orderly end the files must say the same."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runner.errors import Interrupted, MachineError
from runner.ledger import owed, read_judgements, read_samples
from runner.recorder import Recorder
from runner.records import Counts, Judgement, Prompt, Sample
from tests.runkit import MOST, Kit, failure, judgement, planned, sample

ROWS = [planned(n) for n in range(6)]


class Judge:
    """Rejects odd rows."""

    def describe(self) -> bytes:
        return b"{}"

    def judge(self, of: Sample, _prompt: Prompt | None) -> Judgement:
        return judgement(of, rejected=of.row % 2 == 1)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    kit = Kit(tmp_path / "run")
    kit.plan(ROWS)
    return kit


def recorder(kit: Kit, **options: bool) -> Recorder:
    return Recorder(kit.run, Judge(), "online", max_attempts=MOST, **options)


async def fill(one: Recorder, rows: list) -> None:
    for row in rows:
        one.accept(sample(row), Prompt(prompt_hash="", category="B4", row=row.row, messages=[]))
    await one.settle()


@pytest.mark.parametrize("rows", [0, 3, 6])
def test_counts_follow_what_is_durable(kit: Kit, rows: int) -> None:
    with recorder(kit) as one:
        asyncio.run(fill(one, ROWS[:rows]))
        assert one.counts.ok + one.counts.rejected == rows
        assert one.at_risk == 0
        assert one.stats.all().samples == rows
    assert one.counts == Counts(planned=6, ok=(rows + 1) // 2, rejected=rows // 2, pending=6 - rows)
    with recorder(kit) as again:
        assert again.counts == one.counts
        assert again.stats.all().samples == rows


def test_samples_whose_verdicts_a_crash_lost_are_judged_again(kit: Kit) -> None:
    kit.samples(sample(row) for row in ROWS[:3])
    kit.judge([judgement(sample(ROWS[0]))])
    with recorder(kit) as one:
        assert one.counts == Counts(planned=6, ok=2, rejected=1, pending=3)
    assert len(list(read_judgements(kit.run, "online"))) == 3


def test_counting_again_in_the_middle_changes_no_figure(kit: Kit) -> None:
    with recorder(kit) as one:
        asyncio.run(fill(one, ROWS[:3]))
        before = one.counts
        one.recount()
        assert one.counts == before == Counts(planned=6, ok=2, rejected=1, pending=3)
        assert one.at_risk == 0
        asyncio.run(fill(one, ROWS[3:]))
    assert one.counts == Counts(planned=6, ok=3, rejected=3)


def test_a_sample_that_counts_and_is_not_there_is_told_loudly(kit: Kit) -> None:
    with pytest.raises(MachineError, match="does not balance"), recorder(kit) as one:
        one._fold([judgement(sample(ROWS[0]))])


def lose_count(one: Recorder) -> None:
    """A durable sample that nobody counted."""
    one._samples._on_durable = None
    one.accept(sample(ROWS[0]), Prompt(prompt_hash="", category="B4", row=0, messages=[]))
    one._verdicts.put(msgspec.json.encode(judgement(sample(ROWS[0]))))


def test_one_that_is_there_and_was_not_counted_too(kit: Kit) -> None:
    with pytest.raises(MachineError, match="does not balance"), recorder(kit) as one:
        lose_count(one)


def leave(one: Recorder, error: Exception, *, after: Callable[[], None] = lambda: None) -> None:
    with one:
        after()
        raise error


def test_an_interruption_is_audited(kit: Kit) -> None:
    one = recorder(kit)
    with pytest.raises(Interrupted):
        leave(one, Interrupted("stopped"))
    assert one.counts == Counts(planned=6, pending=6)


def test_another_error_is_not_hidden_by_the_audit(kit: Kit) -> None:
    one = recorder(kit)
    with pytest.raises(KeyError):
        leave(one, KeyError(), after=lambda: one._fold([judgement(sample(ROWS[0]))]))


def test_a_retry_that_did_not_reach_all_failed_ones_balances(kit: Kit) -> None:
    kit.fail(*(failure(row) for row in ROWS[:4]))
    one = recorder(kit, retry_failed=True)
    with pytest.raises(Interrupted):
        leave(
            one,
            Interrupted("stopped"),
            after=lambda: one.failed(failure(ROWS[0]), for_good=True),
        )
    assert one.counts == Counts(planned=6, failed=4, pending=2)


def test_a_superseded_sample_comes_back_once(kit: Kit) -> None:
    from tests.test_ledger import drop

    kit.samples([sample(ROWS[0])])
    with recorder(kit):
        pass
    drop(kit, 0)
    (first, *_) = owed(kit.run, max_attempts=MOST, retry_failed=False)
    with recorder(kit) as one:
        again = sample(ROWS[0], try_=first.try_)
        one.accept(again, Prompt(prompt_hash="", category="B4", row=0, messages=[]))
    assert one.counts == Counts(planned=6, ok=1, pending=5)
    assert [s.try_ for s in read_samples(kit.run)] == [1]
