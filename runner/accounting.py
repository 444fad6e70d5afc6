"""The accounting is checked, not only printed: what an attempt counted against what is on disk."""

from runner.errors import MachineError
from runner.ledger import Accounts
from runner.records import Counts
from runner.rundir import RunDir


def check_accounts(run: RunDir, told: Counts, found: Accounts, *, retried: bool) -> None:
    """Compare the counts of an attempt that ended in order with those of the files.

    `retried`: failed samples were to be asked for again, so one that was not reached is pending
    to the attempt and failed on disk.

    Raises:
        MachineError: a sum is wrong, or they differ: something was lost or counted twice.
    """
    on_disk = found.counts
    if told.balanced and on_disk.balanced and _figures(told, retried) == _figures(on_disk, retried):
        return
    raise MachineError(
        "The accounting does not balance: samples were lost or counted twice.",
        where=str(run.path),
        found=f"this attempt counted {_line(told)}",
        allowed=f"what is on disk: {_line(on_disk)}",
        next_step="python -m runner.runs verify RUN --full says what is wrong with the files; "
        "the same command then asks again for what is owed. Please report this: it is a bug",
    )


def _figures(counts: Counts, retried: bool) -> tuple[int, ...]:
    unsettled = (counts.failed + counts.pending,) if retried else (counts.failed, counts.pending)
    return (counts.planned, counts.ok, counts.rejected, counts.skipped, *unsettled)


def _line(counts: Counts) -> str:
    names = ("planned", "ok", "rejected", "failed", "skipped", "pending")
    return ", ".join(f"{name} {getattr(counts, name):,}" for name in names)
