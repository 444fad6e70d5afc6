"""Bit rot in a run: what is intact stays, what is not is owed again, nothing passes for another."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.ledger import account, count, owed, read_judgements, read_plan, read_samples
from runner.records import Counts, RunStatus
from runner.repair import repair, settle_state
from runner.shards import verify
from tests.runkit import MOST, Kit, judgement, planned, sample

ROWS = [planned(n) for n in range(40)]
MADE = [sample(one) for one in ROWS]


def make(path: Path) -> Kit:
    kit = Kit(path)
    kit.plan(ROWS)
    kit.samples(MADE, frame_bytes=2000)
    kit.judge((judgement(one) for one in MADE), frame_bytes=2000)
    return kit


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return make(tmp_path / "run")


def flip(path: Path, at: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= bit
    path.write_bytes(data)


def test_a_whole_run_is_left_as_it_is(kit: Kit) -> None:
    before = {path: path.read_bytes() for path in kit.run.path.rglob("*.zst")}
    done = repair(kit.run)
    assert not done.changed
    assert {path: path.read_bytes() for path in kit.run.path.rglob("*.zst")} == before


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, 10**6), bit=st.sampled_from([1, 16, 128]), more=st.booleans())
def test_any_flipped_bit_costs_some_samples_and_never_a_wrong_one(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int, more: bool
) -> None:
    kit = make(tmp_path_factory.mktemp("rot") / "run")
    shard = kit.run.samples / "shard-00000.jsonl.zst"
    flip(shard, at, bit)
    if more:
        flip(shard, at // 2 + 77, bit)
    repair(kit.run)
    assert verify(kit.run.samples, full=True).ok
    left = {one.sample_id: one for one in read_samples(kit.run)}
    assert all(left[one.sample_id] == one for one in MADE if one.sample_id in left)
    due = {s.sample_id: s for s in owed(kit.run, max_attempts=MOST, retry_failed=False)}
    assert set(due) | set(left) == {one.sample_id for one in MADE}
    assert not set(due) & set(left)
    assert all(one.try_ == 1 for one in due.values())
    assert {one.sample_id for one in read_judgements(kit.run, "online")} == set(left)
    kit.samples(sample(planned(one.row), try_=one.try_) for one in due.values())
    kit.judge(judgement(sample(planned(o.row), try_=o.try_)) for o in due.values())
    assert count(kit.run, "online", max_attempts=MOST) == Counts(planned=40, ok=40)


def test_what_was_taken_out_lies_in_quarantine_byte_for_byte(kit: Kit) -> None:
    shard = kit.run.samples / "shard-00000.jsonl.zst"
    flip(shard, 900)
    damaged = shard.read_bytes()
    done = repair(kit.run)
    (name,) = done.folders["samples"].quarantined
    offset = int(name.partition("-at-")[2].removesuffix(".bin"))
    kept = (kit.run.samples / "quarantine" / name).read_bytes()
    assert damaged[offset : offset + len(kept)] == kept
    assert len(kept) == done.folders["samples"].quarantined_bytes > 0


def test_a_repaired_run_is_not_done(kit: Kit) -> None:
    flip(kit.run.samples / "shard-00000.jsonl.zst", 900)
    done = repair(kit.run)
    state = settle_state(kit.run, kit.state(), done, max_attempts=MOST)
    assert state.status is RunStatus.INTERRUPTED
    assert state.counts.pending == done.lost > 0
    assert kit.run.read() == state


def test_damaged_verdicts_are_only_judged_again(kit: Kit) -> None:
    flip(kit.run.verdicts("online") / "shard-00000.jsonl.zst", 600)
    assert repair(kit.run).lost == 0
    accounts = account(kit.run, "online", max_attempts=MOST)
    assert accounts.counts.pending > 0
    assert list(owed(kit.run, max_attempts=MOST, retry_failed=False)) == []


def test_lost_lists_are_made_again(kit: Kit) -> None:
    for folder in (kit.run.samples, kit.run.plan, kit.run.prompts):
        (folder / "manifest.json").unlink()
        (folder / "shard-00000.idx.npy").write_bytes(b"x")
    done = repair(kit.run)
    assert not done.changed
    assert len(list(read_plan(kit.run))) == 40
    assert verify(kit.run.samples, full=True).ok


def test_a_damaged_plan_is_moved_away_as_a_whole(kit: Kit) -> None:
    flip(kit.run.prompts / "shard-00000.jsonl.zst", 100)
    done = repair(kit.run)
    assert done.replan
    assert not kit.run.plan.exists()
    assert len(list((kit.run.path / "quarantine").iterdir())) == 2
    state = settle_state(kit.run, kit.state(), done, max_attempts=MOST)
    assert state.status is RunStatus.INTERRUPTED
    assert len(list(read_samples(kit.run))) == 40


def test_damage_inside_an_open_shard_is_taken_out_and_it_stays_open(tmp_path: Path) -> None:
    kit = make(tmp_path / "run")
    sealed = kit.run.samples / "shard-00000.jsonl.zst"
    opened = sealed.with_name(sealed.name + ".part")
    sealed.rename(opened)
    (kit.run.samples / "manifest.json").unlink()
    flip(opened, 900)
    assert repair(kit.run).folders["samples"].mended == [opened.name]
    kit.samples([])  # a writer can go on with it
    assert 0 < len(list(read_samples(kit.run))) < 40
