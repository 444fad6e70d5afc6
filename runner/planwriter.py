"""Entries with their token counts into plan/ and prompts/, each prompt once, each sample once."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec

from runner.errors import ConfigError
from runner.gather import Entry, row_name
from runner.keying import prompt_tag, sample_keying
from runner.planned import Planned
from runner.plansummary import LISTED_HITS, OVER, PlanSummary
from runner.preflight import Limits, fit
from runner.prompts.parts import PromptPart
from runner.prompts.shape import Conversation
from runner.records import PlannedSample, Prompt
from runner.render import RenderFault
from runner.rendering import RenderAhead, Rendered
from runner.rundir import RunDir
from runner.shards import ShardWriter

Result = Rendered | RenderFault | None


def beside(entries: Iterable[Entry], render: RenderAhead) -> Iterator[tuple[Entry, Result]]:
    """Each entry with what it renders to; None for one that is skipped already."""
    here, there = itertools.tee(entries)
    rendered = render(e.conversation for e in there if e.conversation is not None and not e.skip)
    for entry in here:
        yield entry, None if entry.conversation is None or entry.skip else next(rendered)


class PlanWriter:
    """Owns plan/ and prompts/ while they are written. A context manager."""

    def __init__(
        self,
        run: RunDir,
        parts: Mapping[str, PromptPart],
        known: Planned,
        summary: PlanSummary,
        *,
        limits: Limits,
        drop_duplicates: bool,
        accept_changed: bool = False,
    ) -> None:
        self._run, self._parts, self._known = run, parts, known
        self._summary, self._limits, self._drop = summary, limits, drop_duplicates
        self._accept_changed = accept_changed
        self._stored = known.prompts
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        open_writer = self._closing.enter_context
        self._prompts = open_writer(ShardWriter(self._run.prompts, keying=no_key))
        self._plan = open_writer(ShardWriter(self._run.plan, keying=sample_keying))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def put(self, entry: Entry, result: Result) -> None:
        """Plan the samples of one entry that are not planned yet."""
        ids = [sample_id(entry, k) for k in range(self._parts[entry.part].n)]
        changed = self._is_changed(entry)
        new = [(k, own) for k, own in enumerate(ids) if changed or not self._known.has(own)]
        if not new:
            return
        known = self._known.ordinal(entry.part, entry.source, entry.row, entry.turn)
        ordinal = None if changed else known
        if ordinal is not None:  # or it would be a duplicate of its own first sample
            repeats = self._known.is_duplicate(entry.part, entry.source, entry.row, entry.turn)
            entry = entry._replace(duplicate=repeats)
        tokens = len(result.ids) if isinstance(result, Rendered) else 0
        skip = skip_of(entry, result, self._parts[entry.part], self._limits, drop=self._drop)
        if ordinal is None and not changed:  # a changed one was counted when it was planned first
            self._count(entry, result, skip)
        prompt = _prompt(entry)
        if prompt is not None and ordinal is None:
            ordinal, self._stored = self._stored, self._stored + 1
            self._prompts.put(msgspec.json.encode(prompt))
        for k, own in new:
            planned = PlannedSample(
                sample_id=own,
                prompt=-1 if ordinal is None else ordinal,
                prompt_hash=prompt.prompt_hash if prompt is not None else "",
                category=entry.part,
                source=entry.source,
                row=entry.row,
                turn=entry.turn,
                k=k,
                prompt_tokens=tokens,
                skip=skip,
            )
            self._plan.put(msgspec.json.encode(planned))

    def _is_changed(self, entry: Entry) -> bool:
        """Whether the row was planned with another prompt; its samples are then planned anew.

        Raises:
            ConfigError: it was, and resume.accept does not name `prompts`.
        """
        tag = self._known.tag(entry.part, entry.source, entry.row, entry.turn)
        now = prompt_tag(entry.conversation.prompt_hash) if entry.conversation is not None else 0
        if tag is None or tag == now:
            return False
        if not self._accept_changed:
            raise ConfigError(
                "The content of a prompt changed under its row.",
                where=sample_id(entry, 0),
                found=f"prompt hash {now:016x}" if now else "no prompt",
                allowed=f"{f'prompt hash {tag:016x}' if tag else 'no prompt'}, as it was planned",
                next_step="put the old prompts back; or task_name=NAME begins another run; or "
                "'resume.accept=[prompts]' asks again for the rows that changed",
            )
        return True

    def _count(self, entry: Entry, result: Result, skip: str) -> None:
        part = self._summary.part(entry.part)
        part.duplicates += entry.duplicate
        reason, _, detail = skip.partition(": ")
        if reason == "excluded" and len(part.excluded) < LISTED_HITS:
            part.excluded.append(f"{sample_id(entry, 0)} {detail}")
        tokens = len(result.ids) if isinstance(result, Rendered) else 0
        if reason == OVER:
            part.leave_out(tokens, room=self._limits.longest)
        elif reason:
            part.skip(reason)
        elif isinstance(result, Rendered):
            part.measure(tokens)
            part.escaped += bool(result.escaped)
            part.clipped += fit(tokens, self._limits).max_new_tokens < self._limits.max_new_tokens


def skip_of(entry: Entry, result: Result, part: PromptPart, limits: Limits, *, drop: bool) -> str:
    """Why an entry is never sent, as "reason: detail"; "" when it is. `drop`: no duplicates."""
    if entry.skip:
        return entry.skip
    if isinstance(result, RenderFault):
        return f"{result.reason}: {result.detail}"
    if entry.duplicate and drop:
        return "duplicate: its messages and tools are those of an earlier prompt"
    if result is None:
        return ""
    tokens, most = len(result.ids), part.max_prompt_tokens
    if most is not None and tokens > most:
        return f"too_long: {tokens:,} prompt tokens, max_prompt_tokens={most:,}"
    return fit(tokens, limits).skip


def sample_id(entry: Entry, k: int) -> str:
    """`CATEGORY-ROW-K`, with `.SOURCE` where a part has several and `.tTURN` from the second prompt
    of a row on."""
    turn = f".t{entry.turn}" if entry.turn else ""
    return f"{row_name(entry.part, entry.source, entry.row)}{turn}-{k}"


def _prompt(entry: Entry) -> Prompt | None:
    asked: Conversation | None = entry.conversation
    if asked is None:
        return None
    return Prompt(
        prompt_hash=asked.prompt_hash,
        category=entry.part,
        source=entry.source,
        row=entry.row,
        turn=asked.turn,
        messages=asked.messages,
        tools=asked.tools,
        answer=asked.answer,
    )


def no_key(line: bytes) -> tuple[str, int]:
    """The keying of prompts/ (see runner.shards.Keying)."""
    return "", 0  # prompts are found by their ordinal
