"""The beginning and the end of a run as people and MLflow see it."""

import heapq
import random
from typing import Any

from rich.console import Console

from runner.config import flatten
from runner.display import closing_table, duration, reasons_table
from runner.identity import KeyClass, class_of
from runner.ledger import fold, get_sample, read_judgements
from runner.records import Counts, Judgement, RunStatus
from runner.render import Tokenizer
from runner.resolve import Resolved
from runner.rundir import RunDir, RunState
from runner.stats import Stats
from runner.tracking import Tracker

TABLE_ROWS = 30
TEXT_CHARS = 4000


def accounting_line(counts: Counts) -> str:
    """`planned 40 = ok 38 + rejected 1 + failed 0 + skipped 1 + pending 0`."""
    line = (
        f"planned {counts.planned:,} = ok {counts.ok:,} + rejected {counts.rejected:,}"
        f" + failed {counts.failed:,} + skipped {counts.skipped:,} + pending {counts.pending:,}"
    )
    return line if counts.balanced else f"{line}  DOES NOT BALANCE"


def announce_done(console: Console, run: RunDir, state: RunState) -> None:
    """A run that owes nothing: say so, with its figures."""
    stats = fold(run, state.validator_set)
    console.print(f"This run is already {state.status.value}: nothing to do.")
    summarize(console, run, state, stats)
    if state.counts.failed:
        console.print("Failed samples are asked for again with: resume.retry_failed=true")


def summarize(console: Console, run: RunDir, state: RunState, stats: Stats | None) -> None:
    """The table that ends every run, where it is, and what to try next."""
    console.print()
    if stats is not None and stats.categories:
        console.print(closing_table(stats))
        whole = stats.all()
        console.print()
        finish = ", ".join(f"{name} {n:,}" for name, n in sorted(whole.finish.items()))
        rate = f"{state.tokens_per_s:,.0f}" if state.generate_tokens else "not measured"
        console.print(
            f"finish: {finish}   output tokens/s: {rate}   generating: {duration(state.generate_s)}"
        )
        if whole.reasons:
            console.print()
            console.print(reasons_table(stats))
        console.print()
    console.print(accounting_line(state.counts))
    console.print(f"status: {state.status.value}")
    console.print(f"run:    {run.path}", soft_wrap=True)
    if state.status in (RunStatus.DONE, RunStatus.GATE_FAILED):
        console.print()
        console.print("Try next:")
        for command in (
            "decode latest --shortest 2 --longest 2",
            "show latest",
            "verify latest",
        ):
            console.print(f"  python -m runner.runs {command}", soft_wrap=True)


def log_start(tracker: Tracker, resolved: Resolved, state: RunState) -> None:
    """Identity as params (they never change), everything about this attempt as tags."""
    params = {
        path: value
        for path, value in flatten(resolved.config)
        if class_of(path) is KeyClass.IDENTITY
    }
    params |= {f"name.{key}": value for key, value in resolved.names.items()}
    tracker.params({key: _plain(value) for key, value in params.items()})
    tracker.tags(
        {
            **resolved.names,
            "run_id": state.run_id,
            "attempt": str(state.attempts),
            "host": state.host,
            "overrides": " ".join(resolved.overrides),
            "tags": ",".join(resolved.config.tags),
            "run_dir": str(resolved.run.path),
        }
    )


def _plain(value: Any) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def log_end(tracker: Tracker, run: RunDir, stats: Stats, tokenizer: Tokenizer) -> None:
    """Final figures by category, the manifest, and a table of decoded samples."""
    whole = stats.all()
    figures: dict[str, float] = {}
    for name, one in [*sorted(stats.categories.items()), ("all", whole)]:
        samples = max(1, one.samples)
        figures[f"final/{name}/samples"] = one.samples
        figures[f"final/{name}/truncated_share"] = one.finish["length"] / samples
        figures[f"final/{name}/rejected_share"] = one.rejected / samples
        figures[f"final/{name}/mean_output_tokens"] = one.output_tokens / samples
    tracker.metrics(figures, step=whole.output_tokens)
    for path in (run.config_yaml, run.provenance_json, run.samples / "manifest.json", run.run_json):
        if path.is_file():
            tracker.artifact(path)
    tracker.table("samples.json", sample_table(run, tokenizer))


def sample_table(run: RunDir, tokenizer: Tokenizer) -> dict[str, list[Any]]:
    """The shortest, the longest and some random samples, decoded; bounded rows and texts."""
    chosen = _choose(run)
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("sample_id", "category", "finish", "output_tokens", "verdicts", "text")
    }
    for judgement in chosen:
        sample = get_sample(run, judgement.sample_id)
        if sample is None:
            continue
        failed = [f"{n}/{v.reason}" for n, v in judgement.verdicts.items() if v.reason]
        text = tokenizer.decode(sample.output_ids)
        row = (
            sample.sample_id,
            sample.category,
            sample.finish,
            len(sample.output_ids),
            ", ".join(failed),
            text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]} …",
        )
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    return columns


def _choose(run: RunDir) -> list[Judgement]:
    third = TABLE_ROWS // 3
    everything = list(read_judgements(run, "online"))
    shortest = heapq.nsmallest(third, everything, key=lambda j: j.output_tokens)
    longest = heapq.nlargest(third, everything, key=lambda j: j.output_tokens)
    some = random.Random(0).sample(everything, min(third, len(everything)))
    return list({j.sample_id: j for j in (*shortest, *longest, *some)}.values())
