"""What a run owes and what it has: `planned = ok + rejected + failed + skipped + pending`.

Everything is read from the run directory in streams; only an index of numbers is held in memory
(about 40 bytes a sample). A sample is done when a line with its id and its prompt hash is in the
shards; it is owed when it is selected by the plan, not done, not skipped, and not failed for good.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from runner.budget import WHOLE, cut_off
from runner.records import Counts, Failure, Judgement, PlannedSample, Record, Sample
from runner.rundir import RunDir
from runner.shards import ShardReader, key_hash


class PartRequest(Record, frozen=True, kw_only=True):
    """What the plan takes from one part: rows whose selection hash is at most `threshold`."""

    fingerprint: str
    rows: int
    count: int | None
    n: int
    threshold: int


class PlanRequest(Record, frozen=True, kw_only=True):
    """plan/request.json, written last: it exists when the plan is whole."""

    seed: int
    parts: dict[str, PartRequest]
    budget_tokens: int | None = None
    budget_parts: dict[str, int] = {}

    @property
    def budgets(self) -> dict[str, int | None]:
        """Output tokens by part; WHOLE is the run's."""
        return {WHOLE: self.budget_tokens, **self.budget_parts}

    def selects(self, planned: PlannedSample) -> bool:
        """Whether the plan as it now stands still wants this sample (else it is unplanned)."""
        part = self.parts.get(planned.category)
        return (
            part is not None
            and planned.k < part.n
            and selection_hash(self.seed, planned.category, planned.source, planned.row)
            <= part.threshold
        )


def selection_hash(seed: int, category: str, source: str, row: int) -> int:
    """A u64 that orders the rows of a source; a plan takes the lowest ones first."""
    digest = hashlib.blake2b(f"{seed}/{category}/{source}/{row}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def prompt_tag(prompt_hash: str) -> int:
    """The u64 kept beside a sample's key in the index: the beginning of its prompt hash."""
    return int(prompt_hash[:16], 16) if prompt_hash else 0


class _Key(msgspec.Struct):
    sample_id: str
    prompt_hash: str = ""


_key_decoder = msgspec.json.Decoder(_Key)


def sample_keying(line: bytes) -> tuple[str, int]:
    """Key and tag of a line of samples/, verdicts/ or plan/ (see runner.shards.Keying)."""
    key = _key_decoder.decode(line)
    return key.sample_id, prompt_tag(key.prompt_hash)


class DoneIndex:
    """The ids that are in the shards, by 64-bit hash of id and prompt hash."""

    def __init__(self, samples: Path) -> None:
        index = ShardReader(samples, keying=sample_keying).index()
        order = np.argsort(index["key"], kind="stable")
        self._keys: npt.NDArray[np.uint64] = index["key"][order]
        self._tags: npt.NDArray[np.uint64] = index["tag"][order]

    def __contains__(self, planned: PlannedSample) -> bool:
        key, tag = key_hash(planned.sample_id), prompt_tag(planned.prompt_hash)
        first = int(np.searchsorted(self._keys, np.uint64(key), side="left"))
        while first < len(self._keys) and int(self._keys[first]) == key:
            if int(self._tags[first]) == tag:
                return True
            first += 1
        return False


def read_plan(run: RunDir) -> Iterator[PlannedSample]:
    """Every row ever planned, in sending order; ask `PlanRequest.selects` which still count."""
    return _records(run.plan, PlannedSample)


def read_request(run: RunDir) -> PlanRequest | None:
    """The plan's request, or None while there is no whole plan."""
    path = run.plan / "request.json"
    return msgspec.json.decode(path.read_bytes(), type=PlanRequest) if path.is_file() else None


def read_samples(run: RunDir) -> Iterator[Sample]:
    """The current samples in the order they were written; a superseded one is left out."""
    return _records(run.samples, Sample)


def read_judgements(run: RunDir, verdict_set: str) -> Iterator[Judgement]:
    """The current judgements of one verdict set."""
    return _records(run.verdicts(verdict_set), Judgement)


def get_sample(run: RunDir, sample_id: str) -> Sample | None:
    """One current sample by id, by random access."""
    line = ShardReader(run.samples, keying=sample_keying).get(sample_id)
    return None if line is None else msgspec.json.decode(line, type=Sample)


def _records(directory: Path, kind: type[Any]) -> Iterator[Any]:
    reader = ShardReader(directory, keying=sample_keying)
    decoder = msgspec.json.Decoder(kind)
    current = _current(reader.index()["key"])
    for line, wanted in zip(reader.lines(), current, strict=False):
        if wanted:
            yield decoder.decode(line)


def _current(keys: npt.NDArray[np.uint64]) -> Iterator[bool]:
    """For each line in write order, whether it is the last one with its key."""
    last = np.zeros(len(keys), dtype=bool)
    _, from_the_end = np.unique(keys[::-1], return_index=True)
    last[len(keys) - 1 - from_the_end] = True
    return iter(last.tolist())


class FailureSum(msgspec.Struct):
    """What is known of one sample that failed: its last reason, and requests over all attempts."""

    reason: str
    requests: int
    permanent: bool
    detail: str = ""


def read_failures(run: RunDir) -> dict[str, FailureSum]:
    """The failed samples by id. A torn last line is left out (its sample is owed again)."""
    found: dict[str, FailureSum] = {}
    if not run.failures.is_file():
        return found
    for line in run.failures.read_bytes().split(b"\n"):
        try:
            failure = msgspec.json.decode(line, type=Failure)
        except msgspec.DecodeError:
            continue
        before = found.get(failure.sample_id)
        requests = failure.requests + (before.requests if before else 0)
        found[failure.sample_id] = FailureSum(
            failure.reason, requests, failure.permanent, failure.detail
        )
    return found


def failed_for_good(failure: FailureSum | None, max_attempts: int) -> bool:
    """Whether a sample is not asked again by itself."""
    return failure is not None and (failure.permanent or failure.requests >= max_attempts)


def owed(run: RunDir, *, max_attempts: int, retry_failed: bool) -> Iterator[PlannedSample]:
    """The planned samples that are still to be asked for, in sending order."""
    request = read_request(run)
    if request is None:
        return
    done, failures = DoneIndex(run.samples), read_failures(run)
    for planned in read_plan(run):
        if planned.skip or planned in done or not request.selects(planned):
            continue
        if not retry_failed and failed_for_good(failures.get(planned.sample_id), max_attempts):
            continue
        yield planned


def count(run: RunDir, verdict_set: str, *, max_attempts: int) -> Counts:
    """The accounting of a run, read from its directory. Samples without a verdict are pending
    judgement only for a moment, and count as pending."""
    request = read_request(run)
    if request is None:
        return Counts()
    done, failures = DoneIndex(run.samples), read_failures(run)
    rejected: dict[str, bool] = {}
    spent: dict[str, tuple[int, int]] = {}
    for judgement in read_judgements(run, verdict_set):
        rejected[judgement.sample_id] = judgement.rejected
        tokens, samples = spent.get(judgement.category, (0, 0))
        spent[judgement.category] = tokens + judgement.output_tokens, samples + 1
    totals = dict.fromkeys(("planned", "ok", "rejected", "failed", "skipped", "pending"), 0)
    for planned in read_plan(run):
        if not request.selects(planned):
            continue
        totals["planned"] += 1
        state = _state(planned, done, failures, rejected, max_attempts)
        if state == "pending" and planned not in done:
            cut = cut_off(request.budgets, spent, planned.category)
            state = "skipped" if cut else state
        totals[state] += 1
    return Counts(**totals)


def _state(
    planned: PlannedSample,
    done: DoneIndex,
    failures: dict[str, FailureSum],
    rejected: dict[str, bool],
    max_attempts: int,
) -> str:
    if planned.skip:
        return "skipped"
    if planned in done and planned.sample_id in rejected:
        return "rejected" if rejected[planned.sample_id] else "ok"
    if planned in done:
        return "pending"
    if failed_for_good(failures.get(planned.sample_id), max_attempts):
        return "failed"
    return "pending"
