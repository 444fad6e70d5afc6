"""The plan: every sample that a run owes, written once, extended when the plan grows.

Rows are taken by the lowest selection hash, so a larger count is always a superset. The sending
order spreads every part evenly over the run (a row's rank within its part, as a share of the
part), so that any prefix of the order is a fair sample of the mix. Prompts are stored in that
order too: generation then reads both files from front to back.

A crash while planning leaves no request.json; the next attempt plans again from the start. A crash
while extending leaves the old request; the ids that are there already are not planned twice.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from runner.config import Config
from runner.errors import ConfigError
from runner.ledger import (
    PartRequest,
    PlanRequest,
    read_plan,
    read_request,
    sample_keying,
    selection_hash,
)
from runner.prompts.shape import Conversation, RowFault, conversation_of
from runner.prompts.source import PromptSource
from runner.records import PlannedSample, Prompt, Record
from runner.rundir import RunDir, replace_file
from runner.shards import ShardReader, ShardWriter

TokenCount = Callable[[Conversation], int]
"""Prompt tokens of a conversation; may raise RowFault when it cannot be rendered."""

MAX_U64 = 2**64 - 1


class Limits(Record, frozen=True, kw_only=True):
    """What fits: a prompt and its answer share the context."""

    context_length: int
    max_new_tokens: int


def make_plan(
    run: RunDir,
    config: Config,
    sources: Mapping[str, PromptSource],
    *,
    count_tokens: TokenCount,
    limits: Limits,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> PlanRequest:
    """Bring plan/ and prompts/ up to what the config asks for. Nothing is ever deleted from a
    whole plan; rows that are no longer selected stay and no longer count.

    Raises:
        ConfigError: the plan was made with another seed or other rows than the sources now have.
    """
    before = read_request(run)
    wanted = _request(config, sources)
    if before is not None:
        _check_same_rows(before, wanted)
        if before == wanted:
            return before
    else:
        _start_over(run)
    _write(run, before, wanted, sources, count_tokens, limits, progress)
    replace_file(run.plan / "request.json", msgspec.json.encode(wanted))
    return wanted


def _request(config: Config, sources: Mapping[str, PromptSource]) -> PlanRequest:
    parts = {}
    for name, part in config.category.parts.items():
        source = sources[name]
        count = part.count if part.count is not None else config.category.count
        parts[name] = PartRequest(
            fingerprint=source.fingerprint,
            rows=len(source),
            count=count,
            n=part.n if part.n is not None else config.category.n,
            threshold=_threshold(config.seed, name, source, count),
        )
    return PlanRequest(seed=config.seed, parts=parts)


def _threshold(seed: int, part: str, source: PromptSource, count: int | None) -> int:
    if count is None or count >= len(source):
        return MAX_U64
    return int(np.sort(_hashes(seed, part, source))[count - 1])


def _hashes(seed: int, part: str, source: PromptSource) -> npt.NDArray[np.uint64]:
    rows = range(len(source))
    values = (selection_hash(seed, part, source.name, row) for row in rows)
    return np.fromiter(values, dtype=np.uint64, count=len(source))


def _check_same_rows(before: PlanRequest, wanted: PlanRequest) -> None:
    for name, part in wanted.parts.items():
        old = before.parts.get(name)
        if old is not None and (old.fingerprint, old.rows) != (part.fingerprint, part.rows):
            raise ConfigError(
                f"The prompts of part {name} are not those that this run was planned with.",
                where=f"category.parts.{name}",
                found=f"{part.rows:,} rows, content {part.fingerprint[:12]}",
                allowed=f"{old.rows:,} rows, content {old.fingerprint[:12]}",
                next_step="put the old prompts back, or begin another run with task_name=NAME",
            )


def _start_over(run: RunDir) -> None:
    for folder in (run.plan, run.prompts):
        if folder.exists():
            shutil.rmtree(folder)


def _sending_order(seed: int, wanted: PlanRequest, sources: Mapping[str, PromptSource]) -> "_Order":
    """(part, row) for all selected rows, every part spread evenly over the whole."""
    names, part_of, rows, places = list(wanted.parts), [], [], []
    for position, name in enumerate(names):
        hashes = _hashes(seed, name, sources[name])
        selected = np.flatnonzero(hashes <= np.uint64(wanted.parts[name].threshold))
        selected = selected[np.argsort(hashes[selected], kind="stable")]
        rows.append(selected)
        part_of.append(np.full(len(selected), position))
        places.append((np.arange(len(selected)) + 0.5) / max(1, len(selected)))
    order = np.argsort(np.concatenate(places), kind="stable")
    all_parts, all_rows = np.concatenate(part_of), np.concatenate(rows)
    return _Order(names, all_parts[order], all_rows[order])


class _Order:
    """(part, row) pairs as two arrays: 16 bytes a row, however many there are."""

    def __init__(
        self, names: list[str], parts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> None:
        self._names, self._parts, self._rows = names, parts, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for part, row in zip(self._parts, self._rows, strict=True):
            yield self._names[part], int(row)


def _write(
    run: RunDir,
    before: PlanRequest | None,
    wanted: PlanRequest,
    sources: Mapping[str, PromptSource],
    count_tokens: TokenCount,
    limits: Limits,
    progress: Callable[[int, int], None],
) -> None:
    known: dict[tuple[str, str, int], int] = {}
    planned_ids: set[str] = set()
    if before is not None:
        for old in read_plan(run):
            known[old.category, old.source, old.row] = old.prompt
            planned_ids.add(old.sample_id)
    rows = _sending_order(wanted.seed, wanted, sources)
    stored = len(ShardReader(run.prompts)) if before is not None else 0
    with (
        ShardWriter(run.prompts, keying=_prompt_keying) as prompts,
        ShardWriter(run.plan, keying=sample_keying) as plan,
    ):
        for done, (name, row) in enumerate(rows):
            progress(done, len(rows))
            entry = _Entry(name, sources[name], row, limits)
            ids = [entry.sample_id(k) for k in range(wanted.parts[name].n)]
            if all(sample_id in planned_ids for sample_id in ids):
                continue
            ordinal = known.get((name, sources[name].name, row))
            prompt, planned = entry.plan(count_tokens, stored if ordinal is None else ordinal)
            if prompt is not None and ordinal is None:
                prompts.put(msgspec.json.encode(prompt))
                stored += 1
            for k, sample_id in enumerate(ids):
                if sample_id not in planned_ids:
                    sample = msgspec.structs.replace(planned, sample_id=sample_id, k=k)
                    plan.put(msgspec.json.encode(sample))
        prompts.flush()
        plan.flush()
    progress(len(rows), len(rows))


def _prompt_keying(line: bytes) -> tuple[str, int]:
    return "", 0  # prompts are found by their ordinal


class _Entry:
    """One row on its way into the plan."""

    def __init__(self, part: str, source: PromptSource, row: int, limits: Limits) -> None:
        self.part, self.source, self.row, self.limits = part, source, row, limits

    def sample_id(self, k: int) -> str:
        """`CATEGORY-ROW-K`, with `.SOURCE` where a category has several."""
        source = f".{self.source.name}" if self.source.name else ""
        return f"{self.part}{source}-{self.row}-{k}"

    def plan(self, count_tokens: TokenCount, ordinal: int) -> tuple[Prompt | None, PlannedSample]:
        try:
            conversation = conversation_of(self.source.read(self.row))
        except RowFault as fault:
            return None, self._planned("", -1, 0, f"{fault.reason}: {fault.detail}")
        prompt = Prompt(
            prompt_hash=conversation.prompt_hash,
            category=self.part,
            source=self.source.name,
            row=self.row,
            messages=conversation.messages,
            tools=conversation.tools,
            answer=conversation.answer,
        )
        try:
            tokens = count_tokens(conversation)
        except RowFault as fault:
            skip = f"{fault.reason}: {fault.detail}"
            return prompt, self._planned(prompt.prompt_hash, ordinal, 0, skip)
        skip = self._too_long(tokens)
        return prompt, self._planned(prompt.prompt_hash, ordinal, tokens, skip)

    def _too_long(self, tokens: int) -> str:
        room = self.limits.context_length - self.limits.max_new_tokens
        if tokens <= room:
            return ""
        return (
            f"over_budget: {tokens:,} prompt tokens, room for {room:,} beside "
            f"max_new_tokens={self.limits.max_new_tokens:,} in a context of "
            f"{self.limits.context_length:,}"
        )

    def _planned(self, prompt_hash: str, ordinal: int, tokens: int, skip: str) -> PlannedSample:
        return PlannedSample(
            sample_id=self.sample_id(0),
            prompt=ordinal,
            prompt_hash=prompt_hash,
            category=self.part,
            source=self.source.name,
            row=self.row,
            k=0,
            prompt_tokens=tokens,
            skip=skip,
        )


class PromptReader:
    """Prompts by ordinal, cheap when asked for in rising order (the sending order)."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._decoder = msgspec.json.Decoder(Prompt)
        self._restart()

    def _restart(self) -> None:
        self._lines = iter(enumerate(ShardReader(self._run.prompts).lines()))
        self._position, self._line = -1, b""

    def read(self, ordinal: int) -> Prompt:
        if ordinal < self._position:
            self._restart()
        while self._position < ordinal:
            self._position, self._line = next(self._lines)
        return self._decoder.decode(self._line)


def is_current(run: RunDir, config: Config, sources: Mapping[str, PromptSource]) -> bool:
    """Whether the plan on disk is what this config asks for."""
    return read_request(run) == _request(config, sources)
