"""The end of a run as the person at the terminal sees it."""

from rich.console import Console

from runner.display import closing_table, duration, reasons_table
from runner.ledger import fold
from runner.records import Counts, RunStatus
from runner.rundir import RunDir, RunState
from runner.stats import Stats


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
    if state.unplanned:
        console.print(
            f"kept:   {state.unplanned:,} samples that the plan does not ask for any more"
        )
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
