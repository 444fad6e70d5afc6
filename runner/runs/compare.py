"""Two verdict sets of one run side by side, by reason counts."""

from collections import Counter
from typing import NamedTuple

from rich.console import Console

from runner.conclusion import read_findings
from runner.ledger import read_judgements
from runner.records import Outcome
from runner.rundir import RunDir
from runner.runs.screen import fill, new_table, say, say_table
from runner.view.escape import safe_line
from runner.view.figures import thousands

Key = tuple[str, str]
"""(validator, reason)"""


class Tally(NamedTuple):
    """A verdict set in figures: samples, rejected ones, and how often each reason came."""

    samples: int
    rejected: int
    reasons: Counter[tuple[str, str]]
    severities: dict[tuple[str, str], str]


def tally_of(run: RunDir, verdict_set: str) -> Tally:
    """Count a verdict set. Its set-level findings count with their samples."""
    samples = rejected = 0
    reasons: Counter[Key] = Counter()
    severities: dict[Key, str] = {}
    for judgement in read_judgements(run, verdict_set):
        samples += 1
        rejected += judgement.rejected
        for name, verdict in judgement.verdicts.items():
            if verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
                reasons[name, verdict.reason] += 1
                severities[name, verdict.reason] = verdict.severity or "error"
    for finding in read_findings(run, verdict_set):
        reasons[finding.validator, finding.reason] += finding.samples
        severities[finding.validator, finding.reason] = finding.severity
    return Tally(samples, rejected, reasons, severities)


def compare(run: RunDir, before: str, after: str, screen: Console) -> None:
    """Print both sets: every reason that either has, and the difference."""
    first, second = tally_of(run, before), tally_of(run, after)
    say(screen, "")
    table = new_table(
        screen,
        "validator",
        "reason",
        f"severity {before}",
        f"severity {after}",
        f">{before}",
        f">{after}",
        ">difference",
        title=f"Verdict sets {safe_line(before)} and {safe_line(after)}",
    )
    totals = [
        ("", "samples", "", "", first.samples, second.samples),
        ("", "rejected", "", "", first.rejected, second.rejected),
    ]
    reasons = [
        (
            *key,
            first.severities.get(key, "-"),
            second.severities.get(key, "-"),
            first.reasons[key],
            second.reasons[key],
        )
        for key in sorted(first.reasons.keys() | second.reasons.keys())
    ]
    say_table(screen, fill(table, map(_row, [*totals, *reasons])))


def _row(row: tuple[str, str, str, str, int, int]) -> tuple[str, ...]:
    validator, reason, severity, other, before, after = row
    names = (safe_line(text) for text in (validator, reason, severity, other))
    return (*names, thousands(before), thousands(after), f"{after - before:+,}")
