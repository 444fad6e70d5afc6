"""The plan: every sample that a run owes, written once, extended when the plan grows.

    select rows, read and adapt them (runner.gather) -> render them, for the token count
    -> plan/ and prompts/ (runner.planwriter), plan/summary.json, plan/request.json

Samples lie in plan/ in sending order and prompts in prompts/ too, so generation reads both files
from front to back. A row that cannot be asked is planned as skipped, with its reason.

A crash while planning leaves no request.json; the next attempt plans again from the start. A crash
while extending leaves the old request; the ids that are there already are not planned twice.
"""

import shutil
from collections.abc import Callable, Mapping

import msgspec

from runner.config import Config, Duplicates
from runner.errors import ConfigError
from runner.gather import Gathered, PartSelection, select
from runner.ledger import PartRequest, PlanRequest, read_request, supersede_other_prompts
from runner.partition import own_rows
from runner.planned import Planned
from runner.plansummary import PlanSummary, read_summary, write_summary
from runner.planwriter import PlanWriter, beside, no_key
from runner.preflight import Limits
from runner.prompts.exclusion import Exclusion
from runner.prompts.parts import PromptPart
from runner.records import Prompt
from runner.rendering import RenderAhead
from runner.rundir import RunDir, replace_file
from runner.selection import keep_selection
from runner.shards import ShardReader

__all__ = ["Limits", "PromptReader", "is_current", "make_plan"]

Progress = Callable[[str, int, int], None]
"""(stage, done, total): called often; may raise to stop."""


def make_plan(
    run: RunDir,
    config: Config,
    parts: Mapping[str, PromptPart],
    *,
    render: RenderAhead,
    limits: Limits,
    exclusion: Exclusion,
    progress: Progress = lambda _stage, _done, _total: None,
) -> PlanSummary:
    """Bring plan/ and prompts/ up to what the config asks for, and say what they hold. Nothing is
    ever deleted from a whole plan; rows that are no longer selected stay and no longer count.

    Raises:
        ConfigError: the plan was made with other rows than the sources now have, or a column is
            not there.
        MachineError: a source cannot be read.
    """
    before = read_request(run)
    if before is None:
        _start_over(run)
    else:
        _check_same_rows(before, parts)
    accept = "prompts" in config.resume.accept
    if before is not None and not accept and _asks_for(before) == _wants(config, parts):
        _keep_request(run, msgspec.structs.replace(before, **_budget(config)))
        supersede_other_prompts(run)  # a crash may have come between the plan and this
        return read_summary(run)
    everything = {name: select(part, config.seed) for name, part in parts.items()}
    selected = own_rows(everything, parts, config.partition)
    wanted = _request(config, parts, selected)
    with Gathered(run.path, parts) as gathered:
        known = Planned(run, before)
        _gather(gathered, selected, known, parts, exclusion, progress, everything=accept)
        summary = read_summary(run)
        entries = gathered.in_order(known.tags)
        drop = config.prompts.duplicates is Duplicates.drop
        with PlanWriter(
            run,
            parts,
            known,
            summary,
            limits=limits,
            drop_duplicates=drop,
            accept_changed=accept,
        ) as writer:
            for done, (entry, rendered) in enumerate(beside(entries, render), 1):
                writer.put(entry, rendered)
                progress("planning", done, len(gathered))
    write_summary(run, summary)
    _keep_request(run, wanted)
    supersede_other_prompts(run)
    return summary


def is_current(run: RunDir, config: Config, parts: Mapping[str, PromptPart]) -> bool:
    """Whether the plan on disk is what this config asks for. Reads no source."""
    request = read_request(run)
    if request is None or _asks_for(request) != _wants(config, parts):
        return False
    return request == msgspec.structs.replace(request, **_budget(config))


def _asks_for(request: PlanRequest) -> object:
    named = {name: (p.fingerprint, p.count, p.n) for name, p in request.parts.items()}
    return request.seed, named


def _wants(config: Config, parts: Mapping[str, PromptPart]) -> object:
    return config.seed, {name: (p.fingerprint, p.count, p.n) for name, p in parts.items()}


def _budget(config: Config) -> dict[str, object]:
    return {
        "budget_tokens": config.budget.output_tokens,
        "budget_parts": part_budgets(config),
    }


def part_budgets(config: Config) -> dict[str, int]:
    """Output tokens by part, for the parts that have a budget of their own."""
    budgets = {name: part.budget_tokens for name, part in config.category.parts.items()}
    return {name: tokens for name, tokens in budgets.items() if tokens is not None}


def _request(
    config: Config, parts: Mapping[str, PromptPart], selected: Mapping[str, PartSelection]
) -> PlanRequest:
    requests = {
        name: PartRequest(
            fingerprint=part.fingerprint,
            rows=selected[name].available,
            count=part.count,
            n=part.n,
            threshold=selected[name].threshold,
        )
        for name, part in parts.items()
    }
    return msgspec.structs.replace(PlanRequest(seed=config.seed, parts=requests), **_budget(config))


def _keep_request(run: RunDir, request: PlanRequest) -> None:
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    keep_selection(run)


def _check_same_rows(before: PlanRequest, parts: Mapping[str, PromptPart]) -> None:
    for name, part in parts.items():
        old = before.parts.get(name)
        if old is not None and old.fingerprint != part.fingerprint:
            raise ConfigError(
                f"The prompts of part {name} are not those that this run was planned with.",
                where=part.where,
                found=f"content {part.fingerprint[:12]}",
                allowed=f"content {old.fingerprint[:12]} ({old.rows:,} rows)",
                next_step="put the old prompts back, or begin another run with task_name=NAME",
            )


def _start_over(run: RunDir) -> None:
    for folder in (run.plan, run.prompts):
        if folder.exists():
            shutil.rmtree(folder)


def _gather(
    gathered: Gathered,
    selected: Mapping[str, PartSelection],
    known: Planned,
    parts: Mapping[str, PromptPart],
    exclusion: Exclusion,
    progress: Progress,
    *,
    everything: bool,
) -> None:
    to_read = [
        s if everything else known.to_read(s, parts[name].sources[s.source].name, parts[name].n)
        for name, part in selected.items()
        for s in part.sources
    ]
    total, done = sum(len(s.rows) for s in to_read), 0
    for selection in to_read:
        for _ in gathered.read(selection, exclusion):
            done += 1
            progress("reading", done, total)


class PromptReader:
    """Prompts by ordinal, cheapest when asked for in rising order (the sending order). One further
    back costs an index, once, and then at most the decoding of a frame."""

    def __init__(self, run: RunDir) -> None:
        self._decoder = msgspec.json.Decoder(Prompt)
        self._reader = ShardReader(run.prompts, keying=no_key)
        self._lines = iter(enumerate(self._reader.lines()))
        self._position, self._line = -1, b""

    def read(self, ordinal: int) -> Prompt:
        """The prompt stored as number `ordinal`, from 0."""
        if ordinal < self._position:
            return self._decoder.decode(self._reader.at(ordinal))
        while self._position < ordinal:
            self._position, self._line = next(self._lines)
        return self._decoder.decode(self._line)
