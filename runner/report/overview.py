"""The top of the page: the key figures, the accounting, and what is worth a look. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from markupsafe import Markup

from runner.records import Counts, SetFinding
from runner.report.data import ReportData
from runner.report.plots import share_bar
from runner.stats import CategoryStats
from runner.view.facts import Facts
from runner.view.figures import compact, duration, plural, share

ACCOUNTS = ("ok", "rejected", "failed", "skipped", "pending")
CUT_SHARE_ODD = 0.1
"""A share of samples cut by length from which on it is worth a look."""
NOTES_OF_REASONS = 6


class Card(NamedTuple):
    """One key figure."""

    number: str
    label: str
    about: str = ""


class Note(NamedTuple):
    """Something to look at. `level` is bad, warn or good; `link` a place on the page or ""."""

    level: str
    word: str
    text: str
    link: str = ""


def cards(data: ReportData) -> list[Card]:
    """The figures that people ask for first."""
    facts, whole = data.facts, data.stats.all()
    state, samples = facts.state, whole.samples
    speed = state.tokens_per_s if state else None
    took = f"over {duration(state.generate_s)}" if state and state.generate_s else ""
    mean = f"{whole.output_tokens / samples:,.0f} a sample" if samples else ""
    return [
        Card(f"{samples:,}", "samples", _of_plan(facts)),
        Card(compact(whole.output_tokens), "output tokens", mean),
        Card(compact(whole.prompt_tokens), "prompt tokens"),
        Card("-" if speed is None else f"{speed:,.0f}", "output tokens/s", took),
        Card(share(whole.finish["length"], samples), "cut by length", _of(whole.finish["length"])),
        Card(share(whole.rejected, samples), "rejected", _of(whole.rejected)),
        Card(share(whole.flagged, samples), "flagged", _flagged(data)),
    ]


def _of_plan(facts: Facts) -> str:
    beyond = f", {facts.unplanned:,} beyond it" if facts.unplanned else ""
    return f"{facts.counts.planned:,} planned{beyond}"


def _flagged(data: ReportData) -> str:
    """Only samples with a flag of their own: findings over the whole set are no sample's."""
    apart = any(one.severity == "flag" for one in data.findings)
    own = _of(data.stats.all().flagged)
    return f"{own}; whole set apart" if apart else own


def _of(count: int) -> str:
    return plural(count, "sample")


def accounting(counts: Counts) -> dict[str, Any]:
    """The bar, its legend and the line."""
    parts = [(name, getattr(counts, name)) for name in ACCOUNTS]
    terms = " + ".join(f"{name} {count:,}" for name, count in parts)
    line = f"planned {counts.planned:,} = {terms}"
    return {
        "bar": share_bar(parts, label=line),
        "parts": [(name, f"{count:,}", share(count, counts.planned)) for name, count in parts],
        "line": line if counts.balanced else f"{line}  DOES NOT BALANCE",
        "balanced": counts.balanced,
    }


def finishes(whole: CategoryStats) -> dict[str, Any]:
    """How samples ended."""
    names = {"stop": "stopped by themselves", "length": "cut by length"}
    parts = [(name, whole.finish[name]) for name in names]
    bar: Markup = share_bar(parts, label="how samples ended")
    return {
        "bar": bar,
        "parts": [(n, names[n], f"{count:,}", share(count, whole.samples)) for n, count in parts],
    }


def notes(data: ReportData) -> list[Note]:
    """What a person should look at, most serious first; never empty."""
    found = [*_of_run(data), *_of_gates(data), *_of_checks(data), *_of_findings(data)]
    found.sort(key=lambda note: ("bad", "warn", "good").index(note.level))
    if found:
        return found
    samples = data.stats.all().samples
    text = "No check failed, nothing was lost." if samples else "There are no samples yet."
    return [Note("good", "all well" if samples else "empty", text)]


def _of_run(data: ReportData) -> Iterator[Note]:
    facts, whole = data.facts, data.stats.all()
    counts = facts.counts
    if not facts.balanced:
        yield Note("bad", "accounts", "The accounting does not balance: run `verify`.")
    if facts.status == "dead":
        yield Note("bad", "killed", "The process was killed; the same command continues the run.")
    for word, losses in (("failed", facts.failures), ("skipped", facts.skips)):
        if losses:
            reasons = ", ".join(f"{name} {count:,}" for name, count in losses.items())
            level = "bad" if word == "failed" else "warn"
            yield Note(level, word, f"{plural(sum(losses.values()), 'prompt')}: {reasons}")
    if counts.pending and facts.status != "running":
        yield Note("warn", "pending", f"{plural(counts.pending, 'sample')} still owed.")
    cut = whole.finish["length"]
    if whole.samples and cut / whole.samples >= CUT_SHARE_ODD:
        text = f"{share(cut, whole.samples)} of all samples reached max_new_tokens first."
        yield Note("warn", "cut", text, "#lengths")
    if facts.unplanned:
        yield Note("warn", "unplanned", f"{plural(facts.unplanned, 'sample')} beyond the plan.")


def _of_gates(data: ReportData) -> Iterator[Note]:
    gates = data.facts.state.gates if data.facts.state else {}
    for name, gate in gates.items():
        told = gate if isinstance(gate, dict) else {}
        value = told.get("measured")
        text = f"{name} is {'not measured' if value is None else f'{value:.4g}'}"
        text += f", limit {told.get('limit', '?')}"
        if told.get("passed"):
            yield Note("good", "gate", f"{text}: passed")
        else:
            yield Note("warn" if told.get("warns") else "bad", "gate", f"{text}: NOT passed")


def _of_checks(data: ReportData) -> Iterator[Note]:
    levels = {"reject": "bad", "error": "bad", "flag": "warn"}
    samples = data.facts.whole.samples
    serious = [one for one in data.facts.whole.reasons if one.severity in levels]
    for one in serious[:NOTES_OF_REASONS]:
        text = f"{one.validator}: {one.reason or 'the check itself broke'} on {one.count:,}"
        text += f" ({share(one.count, samples)})"
        yield Note(levels[one.severity], one.severity, text, "#verdicts")
    if len(serious) > NOTES_OF_REASONS:
        text = f"and {plural(len(serious) - NOTES_OF_REASONS, 'reason')} more"
        yield Note("warn", "more", text, "#verdicts")


def _of_findings(data: ReportData) -> Iterator[Note]:
    """One line for each reason, whatever the number of categories that have it."""
    by_reason: dict[tuple[str, str, str], list[SetFinding]] = {}
    for one in data.findings:
        by_reason.setdefault((one.validator, one.reason, one.severity), []).append(one)
    for (validator, reason, severity), found in by_reason.items():
        if severity == "info":
            continue
        level = "bad" if severity in ("reject", "error") else "warn"
        names = ", ".join(one.category for one in found)
        text = f"{validator}: {reason} in {names}"
        samples = sum(one.samples for one in found)
        if samples:
            text += f" ({plural(samples, 'sample')})"
        yield Note(level, "whole set", text, "#verdicts")


def category_rows(data: ReportData) -> list[list[str]]:
    """One row a category, then all of them: name, then eight figures."""
    rows = sorted(data.stats.categories.items())
    if len(rows) != 1:
        rows.append(("all", data.stats.all()))
    return [_category_row(name, one) for name, one in rows]


def _category_row(name: str, one: CategoryStats) -> list[str]:
    samples = one.samples
    lengths = one.lengths["answer"]
    return [
        name,
        f"{samples:,}",
        f"{one.ok:,}",
        f"{one.rejected:,}",
        share(one.flagged, samples),
        share(one.finish["length"], samples),
        f"{one.prompt_tokens:,}",
        f"{one.output_tokens:,}",
        f"{one.output_tokens / samples:,.0f}" if samples else "-",
        f"{lengths.quantile(0.5):,}" if samples else "-",
    ]
