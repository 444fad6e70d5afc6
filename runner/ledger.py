"""What a run owes and what it has: `planned = ok + rejected + failed + skipped + pending`.

Everything is read from the run directory in streams; only numbers are held in memory (some 100
bytes a sample while it counts). A sample is done when a current line with its id and its prompt
hash is in the shards; it is owed when the plan selects it and it is not done, not skipped, and not
failed for good. Lines are matched by the hashes of the index files (runner.keying), not by decoding
them.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from runner.budget import cut_off
from runner.failures import FailureSum, failed_for_good, read_failures
from runner.keying import (
    Hashes,
    Mask,
    contains,
    find,
    last_of_each_key,
    prompt_pairs,
    prompt_tag,
    rejected,
    sample_keying,
    try_pairs,
)
from runner.records import Counts, Judgement, OwedSample, PlannedSample, Record, Sample
from runner.rundir import RunDir
from runner.selection import (
    PartRequest,
    PlanRequest,
    read_request,
    selection_hash,
    selection_of,
)
from runner.shards import ShardReader, key_hash
from runner.stats import JudgementFigures, Stats
from runner.superseded import Superseded, SupersededTries, read_superseded, supersede

__all__ = [
    "Accounts",
    "FailureSum",
    "PartRequest",
    "PlanRequest",
    "account",
    "count",
    "failed_for_good",
    "fold",
    "get_sample",
    "losses",
    "open_samples",
    "owed",
    "owed_by_part",
    "prompt_tag",
    "read_failures",
    "read_judgements",
    "read_plan",
    "read_request",
    "read_samples",
    "sample_keying",
    "selection_hash",
    "supersede_other_prompts",
    "verdicts_missing",
]


def read_plan(run: RunDir) -> Iterator[PlannedSample]:
    """Every row ever planned, in sending order; ask `PlanRequest.selects` which still count."""
    reader = ShardReader(run.plan, keying=sample_keying)
    return _decode(reader, last_of_each_key(reader.index()), PlannedSample)


def read_samples(run: RunDir) -> Iterator[Sample]:
    """The current samples in the order they were written; a superseded one is left out."""
    reader, current = open_samples(run)
    return _decode(reader, current, Sample)


def open_samples(run: RunDir) -> tuple[ShardReader, Mask]:
    """A reader of samples/, and which of its lines are current."""
    reader = ShardReader(run.samples, keying=sample_keying)
    return reader, read_superseded(run).current(reader.index())


def read_judgements(run: RunDir, verdict_set: str) -> Iterator[Judgement]:
    """The current judgements of one verdict set."""
    reader = ShardReader(run.verdicts(verdict_set), keying=sample_keying)
    return _decode(reader, read_superseded(run).current(reader.index()), Judgement)


def fold(run: RunDir, verdict_set: str) -> Stats:
    """The figures of the current samples that one verdict set has judged."""
    reader = ShardReader(run.verdicts(verdict_set), keying=sample_keying)
    stats = Stats()
    current = read_superseded(run).current(reader.index())
    stats.add_all(itertools.chain.from_iterable(_figures(reader, current)))
    return stats


def _figures(reader: ShardReader, current: Mask) -> Iterator[list[JudgementFigures]]:
    """The current judgements, a frame at a time: decoded line by line they take twice as long."""
    decoder, at = msgspec.json.Decoder(JudgementFigures), 0
    for content in reader.contents():
        found = decoder.decode_lines(content)
        wanted = current[at : at + len(found)]
        at += len(found)
        yield found if wanted.all() else list(itertools.compress(found, wanted))


def get_sample(run: RunDir, sample_id: str) -> Sample | None:
    """One current sample by id, by random access."""
    line = ShardReader(run.samples, keying=sample_keying).get(sample_id)
    if line is None:
        return None
    sample = msgspec.json.decode(line, type=Sample)
    due = read_superseded(run).next_tries(np.array([key_hash(sample_id)], dtype=np.uint64))
    return sample if sample.try_ >= due[0] else None


def _decode(reader: ShardReader, wanted: Mask, kind: type[Any]) -> Iterator[Any]:
    return map(msgspec.json.Decoder(kind).decode, reader.lines_at(np.flatnonzero(wanted)))


class _Standing(NamedTuple):
    """The lines of plan/ as numbers, in sending order, and how each one stands. Shape (lines,)."""

    reader: ShardReader
    wanted: Mask
    """The plan selects it, and no later line replaces it."""
    skipped: Mask
    sample: npt.NDArray[np.int64]
    """The current sample that was made of it, by its place among them; -1: none."""
    failed: Mask
    parts: npt.NDArray[np.int64]
    """By their place in `PlanRequest.names`."""
    due: npt.NDArray[np.int64]
    """As which try it is, or would be, asked for."""

    @property
    def done(self) -> Mask:
        mask: Mask = self.sample >= 0
        return mask

    @property
    def pending(self) -> Mask:
        mask: Mask = self.wanted & ~self.skipped & ~self.done & ~self.failed
        return mask


class _Samples(NamedTuple):
    """The current samples: their prompt pairs and their try pairs."""

    prompts: Hashes
    tries: Hashes


def _current_samples(run: RunDir, superseded: SupersededTries) -> _Samples:
    index = ShardReader(run.samples, keying=sample_keying).index()
    current = index[superseded.current(index)]
    return _Samples(prompt_pairs(current), try_pairs(current))


def _stand(
    run: RunDir,
    request: PlanRequest,
    samples: _Samples,
    superseded: SupersededTries,
    failures: dict[str, FailureSum],
    max_attempts: int,
) -> _Standing:
    reader = ShardReader(run.plan, keying=sample_keying)
    index, selection = reader.index(), selection_of(run, request, reader)
    keys = index["key"].copy()
    due = superseded.next_tries(keys)
    return _Standing(
        reader,
        selection["wanted"] & last_of_each_key(index),
        selection["skipped"].copy(),
        find(prompt_pairs(index), samples.prompts),
        _failed(keys, due, failures, max_attempts),
        selection["part"].astype(np.int64),
        due,
    )


def _failed(
    keys: Hashes,
    due: npt.NDArray[np.int64],
    failures: dict[str, FailureSum],
    max_attempts: int,
) -> Mask:
    """Which lines failed for good in the try that is due."""
    for_good = {
        key_hash(name): one.try_
        for name, one in failures.items()
        if failed_for_good(one, max_attempts)
    }
    found = np.fromiter(for_good, dtype=np.uint64, count=len(for_good))
    last = np.fromiter(for_good.values(), dtype=np.int64, count=len(for_good))
    at = find(keys, found)
    mask: Mask = at >= 0
    mask[mask] = last[at[mask]] == due[mask]
    return mask


def owed(run: RunDir, *, max_attempts: int, retry_failed: bool) -> Iterator[OwedSample]:
    """The planned samples that are still to be asked for, in sending order."""
    request = read_request(run)
    if request is None:
        return
    superseded, failures = read_superseded(run), read_failures(run)
    samples = _current_samples(run, superseded)
    standing = _stand(run, request, samples, superseded, failures, max_attempts)
    pending, due = standing.pending, standing.due
    if retry_failed:
        pending = pending | (standing.wanted & standing.failed & ~standing.done & ~standing.skipped)
    decoder = msgspec.json.Decoder(OwedSample)
    positions = np.flatnonzero(pending)
    lines = standing.reader.lines_at(positions)
    for line, try_ in zip(lines, due[positions].tolist(), strict=True):
        planned = decoder.decode(line)
        failure = failures.get(planned.sample_id)
        same = failure is not None and failure.try_ == try_ and not retry_failed
        asked = failure.requests if failure is not None and same else 0
        if try_ or asked:
            planned = msgspec.structs.replace(planned, try_=try_, asked=asked)
        yield planned


class OwedPart(msgspec.Struct):
    """How much of one part is owed. Prompt tokens are summed over samples."""

    samples: int = 0
    prompt_tokens: int = 0


def owed_by_part(run: RunDir, *, max_attempts: int, retry_failed: bool) -> dict[str, OwedPart]:
    """What is owed, by part."""
    parts: dict[str, OwedPart] = {}
    for planned in owed(run, max_attempts=max_attempts, retry_failed=retry_failed):
        part = parts.setdefault(planned.category, OwedPart())
        part.samples += 1
        part.prompt_tokens += planned.prompt_tokens
    return parts


class Accounts(Record, frozen=True, kw_only=True):
    """The accounting of a run. `unplanned` current samples lie in the shards and the plan, as it
    now stands, does not ask for them; `superseded` ids were asked for again."""

    counts: Counts = Counts()
    unplanned: int = 0
    superseded: int = 0


def count(run: RunDir, verdict_set: str, *, max_attempts: int) -> Counts:
    """The accounting line of a run; see `account`."""
    return account(run, verdict_set, max_attempts=max_attempts).counts


def account(run: RunDir, verdict_set: str, *, max_attempts: int) -> Accounts:
    """The accounting of a run, read from its directory. A sample without a verdict counts as
    pending: it is judged when the run goes on."""
    request = read_request(run)
    if request is None:
        return Accounts()
    superseded = read_superseded(run)
    samples = _current_samples(run, superseded)
    standing = _stand(run, request, samples, superseded, read_failures(run), max_attempts)
    wanted, done = standing.wanted, standing.wanted & standing.done & ~standing.skipped
    pending, cut = standing.pending, _cut(run, verdict_set, request, standing)
    made = standing.sample[done]
    is_rejected, is_judged = (mask[made] for mask in _judged(run, verdict_set, samples))
    unplanned = np.ones(len(samples.prompts), dtype=bool)
    unplanned[made] = False
    counts = Counts(
        planned=_sum(wanted),
        ok=_sum(is_judged & ~is_rejected),
        rejected=_sum(is_rejected),
        failed=_sum(wanted & standing.failed & ~standing.done & ~standing.skipped),
        skipped=_sum(wanted & standing.skipped) + _sum(pending & cut),
        pending=_sum(pending & ~cut) + _sum(~is_judged),
    )
    return Accounts(counts=counts, unplanned=_sum(unplanned), superseded=len(superseded))


def _sum(mask: Mask) -> int:
    return int(mask.sum())


def _judged(run: RunDir, verdict_set: str, samples: _Samples) -> tuple[Mask, Mask]:
    """Which current samples were rejected, and which have a verdict at all."""
    verdicts = ShardReader(run.verdicts(verdict_set), keying=sample_keying).index()
    verdict = find(samples.tries, try_pairs(verdicts))
    judged: Mask = verdict >= 0
    bad = np.zeros(len(judged), dtype=bool)
    bad[judged] = rejected(verdicts)[verdict[judged]]
    return bad, judged


class _Spent(msgspec.Struct):
    category: str
    output_tokens: int


def _cut(run: RunDir, verdict_set: str, request: PlanRequest, standing: _Standing) -> Mask:
    """Which lines a budget that is spent cuts off. Reads verdicts only where there is a budget."""
    limits = request.budgets
    if all(limit is None for limit in limits.values()):
        return np.zeros(len(standing.wanted), dtype=bool)
    reader = ShardReader(run.verdicts(verdict_set), keying=sample_keying)
    current = read_superseded(run).current(reader.index())
    tokens: Counter[str] = Counter()
    samples: Counter[str] = Counter()
    for one in _decode(reader, current, _Spent):
        tokens[one.category] += one.output_tokens
        samples[one.category] += 1
    spent = {name: (tokens[name], samples[name]) for name in samples}
    parts = [n for n, name in enumerate(request.names) if cut_off(limits, spent, name)]
    return np.isin(standing.parts, parts)


def losses(
    run: RunDir, verdict_set: str, *, max_attempts: int
) -> tuple[Counter[str], Counter[str]]:
    """Why planned samples are not there: (failed by reason, skipped by reason code)."""
    failed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    request = read_request(run)
    if request is None:
        return failed, skipped
    superseded, failures = read_superseded(run), read_failures(run)
    samples = _current_samples(run, superseded)
    standing = _stand(run, request, samples, superseded, failures, max_attempts)
    lost = standing.wanted & (standing.skipped | (standing.failed & ~standing.done))
    for planned in _decode(standing.reader, lost, PlannedSample):
        if planned.skip:
            skipped[planned.skip.partition(":")[0]] += 1
        else:
            failed[failures[planned.sample_id].reason] += 1
    if budget := _sum(standing.pending & _cut(run, verdict_set, request, standing)):
        skipped["budget"] = budget
    return failed, skipped


def supersede_other_prompts(run: RunDir) -> int:
    """Name the current samples whose id the plan now gives to another prompt: they are owed again.
    Gives how many there were."""
    reader, current = open_samples(run)
    index = reader.index()
    plan = ShardReader(run.plan, keying=sample_keying).index()
    plan = plan[last_of_each_key(plan)]
    other = contains(plan["key"], index["key"]) & ~contains(prompt_pairs(plan), prompt_pairs(index))
    samples = list(_decode(reader, current & other, Sample))
    if not samples:
        return 0
    supersede(
        run,
        [
            Superseded(
                sample_id=one.sample_id,
                try_=one.try_,
                prompt_hash=one.prompt_hash,
                reason="the prompt of its row changed",
                at=time.time(),
            )
            for one in samples
        ],
    )
    return len(samples)


def verdicts_missing(run: RunDir, verdict_set: str) -> tuple[ShardReader, Mask]:
    """A reader of samples/, and which current samples have no verdict in this set."""
    reader, current = open_samples(run)
    directory: Path = run.verdicts(verdict_set)
    verdicts = ShardReader(directory, keying=sample_keying).index()
    missing: Mask = current & ~contains(try_pairs(verdicts), try_pairs(reader.index()))
    return reader, missing
