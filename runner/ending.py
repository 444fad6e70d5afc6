"""The end of a run as the person at the terminal sees it."""

import os
from pathlib import Path

from rich.console import Console

from runner.display import closing_table, duration, reasons_table
from runner.ledger import fold
from runner.records import Counts, RunStatus
from runner.rundir import RunDir, RunState, reference_of
from runner.stats import Stats
from runner.view.facts import losses_of, named
from runner.view.status import read_settings


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
    console.print(
        f"Other validators on the same samples: python -m runner.runs validate {reference(run)} "
        "--set NAME validators=NAME",
        soft_wrap=True,
    )


def summarize(console: Console, run: RunDir, state: RunState, stats: Stats | None) -> None:
    """The table that ends every run, where it is, and what to try next."""
    console.print()
    if stats is not None and stats.categories:
        console.print(closing_table(stats))
        whole = stats.all()
        console.print()
        finish = ", ".join(f"{name} {n:,}" for name, n in sorted(whole.finish.items()))
        rate = "not measured" if state.tokens_per_s is None else f"{state.tokens_per_s:,.0f}"
        console.print(
            f"finish: {finish}   output tokens/s: {rate}   generating: {duration(state.generate_s)}"
        )
        if whole.reasons:
            console.print()
            console.print(reasons_table(stats))
        console.print()
    console.print(accounting_line(state.counts))
    if state.counts.skipped:
        lost = losses_of(run, state.validator_set, read_settings(run).client.retry.max_attempts)
        console.print(f"skipped: {named(lost.skipped.items())}", soft_wrap=True)
    if state.unplanned:
        console.print(
            f"kept:   {state.unplanned:,} samples that the plan does not ask for any more"
        )
    console.print(f"status: {state.status.value}")
    console.print(f"run:    {run.path}", soft_wrap=True)
    if state.status in (RunStatus.DONE, RunStatus.GATE_FAILED):
        console.print()
        console.print("Try next:")
        name = reference(run)
        for command in (
            f"decode {name} --shortest 2 --longest 2",
            f"show {name}",
            f"verify {name}",
        ):
            console.print(f"  python -m runner.runs {command}", soft_wrap=True)


def reference(run: RunDir) -> str:
    """How a command of the runs tool names this run from here: by its path where the tool would
    look in another outputs folder."""
    looked_in = Path(os.environ.get("RAWTOK_OUTPUTS", "outputs")).resolve()
    if run.path.parent.parent == looked_in:
        return reference_of(run)
    return str(run.path)
