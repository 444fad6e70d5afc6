"""The checks behind `verify`: files first, then each sample against itself, plan and verdicts.

Problems are listed, never raised. Memory: an index of numbers (about 100 bytes a sample).
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from runner import shards
from runner.errors import MachineError
from runner.keying import Mask, contains, prompt_pairs, try_pairs
from runner.ledger import count, sample_keying
from runner.records import Counts, Record, RunStatus, Sample, TokenProfile
from runner.rundir import RunDir, RunState
from runner.shards import Index, ShardReader
from runner.superseded import read_superseded
from runner.view.figures import plural
from runner.view.reading import read_profile
from runner.view.status import choose_set, is_dead, read_settings, read_state


class Fault(Record, frozen=True, kw_only=True):
    """One thing that is wrong. `frame` and `offset` are -1 and `sample_id` "" where they do not
    apply; `file` is relative to the run directory."""

    what: str
    file: str = ""
    frame: int = -1
    offset: int = -1
    sample_id: str = ""


class Checked(Record, frozen=True, kw_only=True):
    """One shard directory that was looked at. `tail_bytes` of an open shard are no problem."""

    folder: str
    shards: int
    frames: int
    records: int
    raw_bytes: int
    tail_bytes: int


class Report(Record, frozen=True, kw_only=True):
    """What was looked at and what is wrong. `notes` are worth reading and no problem; `counts` is
    None when the accounting could not be made."""

    run_id: str
    path: str
    live: bool
    full: bool
    checked: list[Checked]
    samples: int
    tokens: int
    counts: Counts | None
    seconds: float
    notes: list[str]
    problems: list[Fault]

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass
class _Findings:
    """What the checks gather on their way."""

    samples: int = 0
    tokens: int = 0
    counts: Counts | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[Fault] = field(default_factory=list)


def check_run(run: RunDir, *, full: bool = False) -> Report:
    """Look at all of a run. `full` also parses every line and compares the index files."""
    began_s = time.monotonic()
    state = read_state(run)
    live = state is not None and state.status is RunStatus.RUNNING and not is_dead(run, state)
    found = _Findings()
    checked = [_check_folder(run, folder, found, full=full) for folder in _folders(run)]
    try:
        _check_content(run, state, found, live=live)
    except MachineError as error:
        _not_listed_yet(error, found)
    return Report(
        run_id=state.run_id if state else run.path.name,
        path=str(run.path),
        live=live,
        full=full,
        checked=checked,
        samples=found.samples,
        tokens=found.tokens,
        counts=found.counts,
        seconds=time.monotonic() - began_s,
        notes=found.notes,
        problems=found.problems,
    )


def _folders(run: RunDir) -> list[Path]:
    sets = sorted(path for path in (run.path / "verdicts").glob("*") if path.is_dir())
    return [run.samples, *sets, run.plan, run.prompts]


def _check_folder(run: RunDir, folder: Path, found: _Findings, *, full: bool) -> Checked:
    """The frames, hashes and counts of one shard directory."""
    name = str(folder.relative_to(run.path))
    # Prompts are found by their ordinal and have no key.
    report = shards.verify(
        folder, full=full, keying=None if folder == run.prompts else sample_keying
    )
    for one in report.problems:
        # An id may come again: with a higher `try`, or planned with another prompt. What must not
        # come twice is looked for by content.
        if one.kind != "duplicate":
            place = f"{name}/{one.file}"
            fault = Fault(what=one.what, file=place, frame=one.frame, offset=one.offset)
            found.problems.append(fault)
    return Checked(
        folder=name,
        shards=report.shards,
        frames=report.frames,
        records=report.records,
        raw_bytes=report.raw_bytes,
        tail_bytes=report.tail_bytes,
    )


def _not_listed_yet(error: MachineError, found: _Findings) -> None:
    """Damage stops the look at the content; it is a problem of its own only if it is news."""
    if found.problems:
        found.notes.append(f"not all samples could be looked at one by one: {error.where}")
    else:
        found.problems.append(Fault(what=f"{error.what}: {error.found}", file=error.where))


def _check_content(run: RunDir, state: RunState | None, found: _Findings, *, live: bool) -> None:
    name = choose_set(run, state, None)
    # Verdicts before samples: on a live run each verdict then finds its sample.
    verdicts = {
        folder.name: ShardReader(folder, keying=sample_keying).index()
        for folder in sorted((run.path / "verdicts").glob("*"))
    }
    samples = ShardReader(run.samples, keying=sample_keying)
    plan = ShardReader(run.plan, keying=sample_keying)
    found.problems += _planned_twice(run, plan)
    superseded = read_superseded(run)
    _check_samples(run, samples, plan.index(), found, current=superseded.current(samples.index()))
    for verdict_set, index in verdicts.items():
        current = superseded.current(index)
        _check_verdicts(verdict_set, index, samples.index(), found, current=current)
        if not live:  # on a live run verdicts follow their samples by a moment
            _note_unjudged(verdict_set, index, samples.index(), found)
    counts = count(run, name, max_attempts=read_settings(run).client.retry.max_attempts)
    found.counts = counts
    found.problems += _counts_faults(counts, state)


def _planned_twice(run: RunDir, plan: ShardReader) -> Iterator[Fault]:
    """A line of plan/ that replaces an earlier one says something else; the very same again is
    there for no reason."""
    index, files = plan.index(), _file_names(run.plan)
    order = np.argsort(index["key"], kind="stable")
    again = np.flatnonzero(index["key"][order[1:]] == index["key"][order[:-1]])
    for before, after in zip(order[again].tolist(), order[again + 1].tolist(), strict=True):
        line, row = plan.at(after), index[after]
        if line == plan.at(before):
            yield Fault(
                what="it is planned twice",
                file=f"plan/{files.get(int(row['shard']), '?')}",
                frame=int(row["frame"]),
                sample_id=sample_keying(line)[0],
            )


def _check_samples(
    run: RunDir, samples: ShardReader, plan: Index, found: _Findings, *, current: Mask
) -> None:
    index = samples.index()
    if not len(index):
        return
    profile = read_profile(run)
    planned = contains(plan["key"], index["key"])
    # What was superseded may be of a prompt that a plan made again does not know.
    same_prompt = contains(prompt_pairs(plan), prompt_pairs(index)) | ~current
    tries = _Tries(index)
    files = _file_names(run.samples)
    for position, line in enumerate(samples.lines()):
        row = index[position]
        place = Fault(
            what="", file=f"samples/{files.get(int(row['shard']), '?')}", frame=int(row["frame"])
        )
        try:
            sample = msgspec.json.decode(line, type=Sample)
        except msgspec.DecodeError as error:
            what = f"not a sample: {error}"
            found.problems.append(msgspec.structs.replace(place, what=what))
            continue
        found.samples += 1
        found.tokens += len(sample.input_ids) + len(sample.output_ids)
        whats = [*sample_faults(sample, profile), *tries.faults(sample, row["key"])]
        if not planned[position]:
            whats.append("the plan has no such id")
        elif not same_prompt[position]:
            whats.append("its prompt hash is not that of the plan")
        found.problems += [
            msgspec.structs.replace(place, what=what, sample_id=sample.sample_id) for what in whats
        ]


def sample_faults(sample: Sample, profile: TokenProfile) -> Iterator[str]:
    """What is wrong with a sample by itself."""
    for name, ids, told in (
        ("input_ids", sample.input_ids, sample.prompt_tokens),
        ("output_ids", sample.output_ids, sample.completion_tokens),
    ):
        if ids and (min(ids) < 0 or max(ids) >= profile.vocab_padded):
            bad = next(token for token in ids if not 0 <= token < profile.vocab_padded)
            yield f"{name} holds {bad}; the model has ids 0 to {profile.vocab_padded - 1}"
        if len(ids) != told:
            counted = "prompt_tokens" if name == "input_ids" else "completion_tokens"
            yield f"{name} holds {len(ids):,} ids; {counted} says {told:,}"


class _Tries:
    """Ids that occur more than once: fine when asked for again, wrong with the same `try`."""

    def __init__(self, index: Index) -> None:
        keys, counts = np.unique(index["key"], return_counts=True)
        self._repeated = set(keys[counts > 1].tolist())
        self._seen: set[tuple[str, int]] = set()

    def faults(self, sample: Sample, key: np.uint64) -> Iterator[str]:
        if int(key) not in self._repeated:
            return
        if (sample.sample_id, sample.try_) in self._seen:
            yield f"the shards hold this id with try {sample.try_} already"
        self._seen.add((sample.sample_id, sample.try_))


def _file_names(folder: Path) -> dict[int, str]:
    """Shard number to file name."""
    return {int(path.name[6:11]): path.name for path in folder.glob("shard-*.jsonl.zst*")}


def _check_verdicts(
    name: str, verdicts: Index, samples: Index, found: _Findings, *, current: Mask
) -> None:
    folder = f"verdicts/{name}"
    strangers = int((~contains(samples["key"], verdicts["key"]) & current).sum())
    if strangers:
        what = f"{plural(strangers, 'verdict')} on samples that are not in the shards"
        found.problems.append(Fault(what=what, file=folder))
    changed = ~contains(prompt_pairs(samples), prompt_pairs(verdicts)) & current
    others = int(changed.sum()) - strangers
    if others > 0:
        what = f"{plural(others, 'verdict')} on samples of another prompt"
        found.problems.append(Fault(what=what, file=folder))


def _note_unjudged(name: str, verdicts: Index, samples: Index, found: _Findings) -> None:
    unjudged = int((~contains(try_pairs(verdicts), try_pairs(samples))).sum())
    if unjudged:
        found.notes.append(f"{plural(unjudged, 'sample')} without a verdict in set {name}")


def _counts_faults(counts: Counts, state: RunState | None) -> Iterator[Fault]:
    if not counts.balanced:
        yield Fault(what=f"the accounting does not balance: {counts}", file="plan")
    settled = state is not None and state.status is not RunStatus.RUNNING
    if state is not None and settled and counts != state.counts:
        differ = ", ".join(
            f"{name} {getattr(state.counts, name):,} there and {getattr(counts, name):,} here"
            for name in Counts.__struct_fields__
            if getattr(state.counts, name) != getattr(counts, name)
        )
        yield Fault(
            what=f"run.json tells of other counts than the files: {differ}", file="run.json"
        )
