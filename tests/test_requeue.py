"""Asking again: which samples, when that is refused, and what the run says then."""

from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.ledger import owed, read_samples
from runner.records import RunStatus
from runner.requeue import check_allowed, choose, requeue
from tests.runkit import MOST, Kit, judgement, planned, sample


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    kit = Kit(tmp_path / "run")
    rows = [planned(n) for n in range(6)]
    kit.plan(rows)
    made = [sample(one, launch=1 + one.row // 3) for one in rows]
    kit.samples(made)
    reasons = ["", "loop", "loop", "", "", ""]
    kit.judge(
        judgement(one, rejected=one.row == 5, reason=reasons[one.row] or "nan") for one in made
    )
    return kit


def names(kit: Kit, **how: object) -> list[str]:
    asked = {"reason": None, "where": {}, **how}
    return [one.sample_id for one in choose(kit.run, "online", **asked)]


def test_by_reason_by_value_and_by_both(kit: Kit) -> None:
    assert names(kit, reason="loop") == ["B4-1-0", "B4-2-0"]
    assert names(kit, where={"launch": "2"}) == ["B4-3-0", "B4-4-0", "B4-5-0"]
    assert names(kit, where={"row": "2", "finish": "stop"}, reason="loop") == ["B4-2-0"]
    assert names(kit, where={"launch": "9"}) == []


def test_a_reason_that_no_sample_has_names_those_that_there_are(kit: Kit) -> None:
    with pytest.raises(ConfigError, match=r"nan \(4\), loop \(2\)"):
        choose(kit.run, "online", reason="lop", where={})


def test_a_key_that_a_sample_does_not_have_is_refused(kit: Kit) -> None:
    with pytest.raises(ConfigError, match="launch, attempt"):
        choose(kit.run, "online", reason=None, where={"lanch": "3"})


def test_a_requeued_sample_is_owed_and_the_run_is_not_done(kit: Kit) -> None:
    state = kit.state(counts={"planned": 6})
    chosen = choose(kit.run, "online", reason="loop", where={})
    after = requeue(kit.run, state, chosen, why="reason loop", max_attempts=MOST)
    assert (after.status, after.counts.pending, after.counts.planned) == (
        RunStatus.INTERRUPTED,
        2,
        6,
    )
    assert kit.run.read() == after
    due = list(owed(kit.run, max_attempts=MOST, retry_failed=False))
    assert [(one.sample_id, one.try_) for one in due] == [("B4-1-0", 1), ("B4-2-0", 1)]
    assert len(list(read_samples(kit.run))) == 4
    assert names(kit, where={"launch": "1"}) == ["B4-0-0"]  # a requeued one is not chosen again


def test_a_greedy_sample_is_refused_unless_the_engine_was_at_fault(kit: Kit) -> None:
    greedy = kit.state(identity={"sampling.temperature": 0.0})
    flagged = choose(kit.run, "online", reason="loop", where={})
    with pytest.raises(ConfigError, match="greedy"):
        check_allowed(greedy, flagged, engine_fault=False)
    check_allowed(greedy, flagged, engine_fault=True)
    rejected = choose(kit.run, "online", reason=None, where={"row": "5"})
    check_allowed(greedy, rejected, engine_fault=False)
    check_allowed(kit.state(identity={"sampling.temperature": 1.0}), flagged, engine_fault=False)
