"""Two verdict sets of one run side by side, by reason counts."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console

from runner.conclusion import is_concluded, read_findings
from runner.ledger import read_judgements
from runner.records import Outcome
from runner.rundir import RunDir
from runner.runs.screen import fill, new_table, say, say_table
from runner.view.escape import safe_line
from runner.view.figures import thousands

Key = tuple[str, str]
"""(validator, reason)"""


class Tally(NamedTuple):
    """A verdict set in figures: samples, rejected ones, and how often each reason came.

    `findings` are the samples of each finding over the whole set, by (validator, reason, category);
    None where the set-level checks were never done."""

    samples: int
    rejected: int
    reasons: Counter[tuple[str, str]]
    severities: dict[tuple[str, str], str]
    findings: dict[tuple[str, str, str], int] | None


def tally_of(run: RunDir, verdict_set: str) -> Tally:
    """Count a verdict set."""
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
    found = {
        (one.validator, one.reason, one.category): one.samples
        for one in read_findings(run, verdict_set)
    }
    concluded = is_concluded(run, verdict_set)
    return Tally(samples, rejected, reasons, severities, found if concluded else None)


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
    _compare_findings({before: first, after: second}, screen)


def _compare_findings(sets: Mapping[str, Tally], screen: Console) -> None:
    """What was found over the whole of each set; nothing where neither has any."""
    keys = sorted({key for one in sets.values() for key in one.findings or {}})
    if not keys:
        return
    say(screen, "")
    columns = ("validator", "reason", "category", *(f">{name}" for name in sets), ">difference")
    table = new_table(screen, *columns, title="Found over the whole set, in samples")
    tallies = list(sets.values())
    say_table(screen, fill(table, (_finding_row(key, tallies) for key in keys)))
    for name, one in sets.items():
        if one.findings is None:
            text = (
                f"-: set {safe_line(name)} was not looked at as a whole; that comes at a run's end"
            )
            say(screen, (text, "dim"))


def _finding_row(key: tuple[str, str, str], sets: list[Tally]) -> tuple[str, ...]:
    numbers = [None if one.findings is None else one.findings.get(key, 0) for one in sets]
    shown = ["-" if number is None else thousands(number) for number in numbers]
    known = [number for number in numbers if number is not None]
    difference = f"{known[1] - known[0]:+,}" if len(known) == len(numbers) else "-"
    return (*map(safe_line, key), *shown, difference)


def _row(row: tuple[str, str, str, str, int, int]) -> tuple[str, ...]:
    validator, reason, severity, other, before, after = row
    names = (safe_line(text) for text in (validator, reason, severity, other))
    return (*names, thousands(before), thousands(after), f"{after - before:+,}")
