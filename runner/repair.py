"""Mending a run whose files are damaged: what is intact stays, what is not is owed again.

    samples/, verdicts/   damaged frames into quarantine/, manifest and indexes made again
    plan/, prompts/       manifest and indexes made again; a damaged plan is moved to quarantine/ as
                          a whole and made again by the run's own command (ids do not change)

A sample that was lost and had a verdict is named in superseded.jsonl, so that the verdict does not
pass for one on its successor.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from runner.errors import DamagedShard
from runner.keying import contains, sample_keying, try_pairs
from runner.ledger import account
from runner.records import Judgement, Record, RunStatus
from runner.rundir import RunDir, RunState
from runner.shards import SalvageReport, ShardReader, rebuild, salvage, verify
from runner.superseded import Superseded, read_superseded, supersede


class Repaired(Record, frozen=True, kw_only=True):
    """What was done. `lost` samples had a verdict and are gone; others are gone without a trace of
    their id and simply owed. `replan`: the plan was damaged and is made again."""

    folders: dict[str, SalvageReport]
    lost: int
    replan: bool

    @property
    def changed(self) -> bool:
        return bool(self.lost or self.replan or any(one.mended for one in self.folders.values()))


def repair(run: RunDir) -> Repaired:
    """Mend the files of a run, under its lock. Raises MachineError where that cannot be done."""
    sets = sorted(path for path in (run.path / "verdicts").glob("*") if path.is_dir())
    folders = {
        str(path.relative_to(run.path)): salvage(path, keying=sample_keying)
        for path in (run.samples, *sets)
        if path.is_dir()
    }
    lost = _supersede_lost(run, sets)
    return Repaired(folders=folders, lost=lost, replan=not _plan_is_whole(run))


def _supersede_lost(run: RunDir, sets: list[Path]) -> int:
    samples = ShardReader(run.samples, keying=sample_keying).index()
    lost = {(one.sample_id, one.try_): one for path in sets for one in _orphans(run, path, samples)}
    now = time.time()
    supersede(
        run,
        [
            Superseded(
                sample_id=one.sample_id,
                try_=one.try_,
                prompt_hash=one.prompt_hash,
                reason="lost: its frame was damaged",
                at=now,
            )
            for one in lost.values()
        ],
    )
    return len(lost)


def _orphans(run: RunDir, folder: Path, samples: np.ndarray) -> Iterator[Judgement]:
    """The current verdicts of a set whose samples are not there."""
    reader = ShardReader(folder, keying=sample_keying)
    index = reader.index()
    alone = read_superseded(run).current(index) & ~contains(try_pairs(samples), try_pairs(index))
    for line in reader.lines_at(np.flatnonzero(alone)):
        yield msgspec.json.decode(line, type=Judgement)


def _plan_is_whole(run: RunDir) -> bool:
    """Make the lists of plan/ and prompts/ again; move both away if they are damaged."""
    keyings = {run.plan: sample_keying, run.prompts: lambda _line: ("", 0)}
    try:
        for folder, keying in keyings.items():
            if folder.is_dir() and not verify(folder).ok:
                rebuild(folder, keying=keying)
        whole = all(verify(folder).ok for folder in keyings if folder.is_dir())
    except DamagedShard:
        whole = False
    if not whole:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for folder in keyings:
            if folder.is_dir():
                target = run.path / "quarantine" / f"{folder.name}-{stamp}"
                target.parent.mkdir(exist_ok=True)
                folder.rename(target)
    return whole


def settle_state(run: RunDir, state: RunState, done: Repaired, *, max_attempts: int) -> RunState:
    """run.json after a repair: its counts are those of the files, and what is owed is pending."""
    accounts = account(run, state.validator_set, max_attempts=max_attempts)
    counts = accounts.counts
    state = msgspec.structs.replace(state, counts=counts, unplanned=accounts.unplanned)
    if done.replan or counts.pending:
        state = msgspec.structs.replace(
            state,
            status=RunStatus.INTERRUPTED,
            reason="repaired; the same command makes the plan again and goes on"
            if done.replan
            else f"repaired: {counts.pending:,} samples are owed; the same command asks for them",
        )
    run.write(state)
    return state
