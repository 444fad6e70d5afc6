"""The middle of the page: verdicts by category, length distributions, curves over time. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from runner.report.choosing import rank
from runner.report.data import Cell, ReportData
from runner.report.plots import Curve, curve_plot, histogram, log_axis, nice_top
from runner.report.series import Point, Timeline
from runner.stats import CategoryStats, Distribution
from runner.view.figures import compact, duration, share

LENGTHS = {"prompt": "Prompt", "reasoning": "Reasoning", "answer": "Answer and tool calls"}
HEAT_STEPS = (0.0, 0.02, 0.1, 0.3)
"""Shares above which a cell is one step darker."""


class MatrixCell(NamedTuple):
    """A reason in one category: how often, and samples that have it."""

    times: int
    share: str
    heat: int
    examples: list[str]


class MatrixRow(NamedTuple):
    """One reason of one validator over all categories, in their order."""

    severity: str
    validator: str
    reason: str
    times: int
    share: str
    cells: list[MatrixCell]


def matrix(data: ReportData) -> list[MatrixRow]:
    """validator x reason x category, most serious first; only what occurred."""
    counted: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for category, one in data.stats.categories.items():
        for (validator, reason, severity), count in one.reasons.items():
            counted[validator, reason, severity][category] = count
    categories = sorted(data.stats.categories)
    samples = data.stats.all().samples
    there = {one.sample_id for one in data.samples}
    rows = []
    for (validator, reason, severity), by in counted.items():
        cells = [
            _cell(data, Cell(name, validator, reason, severity), by.get(name, 0), there)
            for name in categories
        ]
        total = sum(by.values())
        rows.append(MatrixRow(severity, validator, reason, total, share(total, samples), cells))
    return sorted(rows, key=lambda r: (rank(Cell("", r.validator, "", r.severity))[0], -r.times))


def _cell(data: ReportData, cell: Cell, count: int, there: set[str]) -> MatrixCell:
    samples = data.stats.categories[cell.category].samples
    part = count / samples if samples else 0.0
    examples = [one for one in data.examples.get(cell, []) if one in there]
    return MatrixCell(count, share(count, samples), sum(part > s for s in HEAT_STEPS), examples)


class Histogram(NamedTuple):
    """One category's lengths of one kind."""

    category: str
    about: str
    plot: Markup


class Column(NamedTuple):
    """One kind of length over all categories, on one axis."""

    kind: str
    title: str
    ticks: list[str]
    histograms: list[Histogram]


def length_columns(data: ReportData) -> list[Column]:
    """Prompt, reasoning and answer, each by category; a kind that no sample has is left out."""
    found = []
    categories = sorted(data.stats.categories.items())
    for kind, title in LENGTHS.items():
        distributions = [one.lengths[kind] for _, one in categories]
        if not any(one.max for one in distributions):
            continue
        axis = log_axis(distributions)
        plots = [
            Histogram(
                name,
                _about(one),
                histogram(
                    one,
                    axis,
                    limit=None if kind == "prompt" else data.most_output_tokens,
                    kind=kind,
                    label=f"{title} lengths of {name}: {_about(one)}",
                ),
            )
            for (name, _), one in zip(categories, distributions, strict=True)
        ]
        found.append(Column(kind, title, [short(tick) for tick in axis.ticks], plots))
    return found


def short(tokens: int) -> str:
    """A tick: 1024 -> "1k"."""
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def _about(one: Distribution) -> str:
    none = one.counts[0]
    without = f" · {none:,} without" if none else ""
    return f"median {one.quantile(0.5):,} · p99 {one.quantile(0.99):,}{without}"


def length_table(data: ReportData) -> list[tuple[str, str, list[str]]]:
    """(category, kind, figures) for who wants numbers."""
    groups: list[tuple[str, CategoryStats]] = sorted(data.stats.categories.items())
    if len(groups) != 1:
        groups.append(("all", data.stats.all()))
    return [
        (name, kind, _figures(distribution))
        for name, one in groups
        for kind, distribution in one.lengths.items()
    ]


def _figures(one: Distribution) -> list[str]:
    mean = one.mean if len(one) else 0.0
    quantiles = [one.quantile(q) for q in (0.5, 0.9, 0.99)]
    return [f"{value:,.0f}" for value in (mean, one.min, *quantiles, one.max)]


TITLES = {
    "tokens_per_s": "Output tokens per second",
    "in_flight": "Requests in flight",
    "done": "Samples done",
    "output_tokens": "Output tokens so far",
    "rejected_share": "Rejected share",
    "flagged_share": "Flagged share",
    "truncated_share": "Share cut by length",
    "failed": "Failed",
}
"""The runner's own curves, in the order in which they are shown; the server's come after."""
SERVER = "server/"
SERVER_CURVES_MAX = 24


class Chart(NamedTuple):
    """One curve with its labels."""

    title: str
    about: str
    top: str
    middle: str
    ticks: list[str]
    plot: Markup


def charts(timeline: Timeline, marks: Sequence[tuple[float, str]]) -> list[Chart]:
    """The curves of a run that have something to tell."""
    server = sorted(name for name in timeline.curves if name.startswith(SERVER))
    named = {name: title for name, title in TITLES.items() if name in timeline.curves}
    named |= {name: f"Server: {name[len(SERVER) :]}" for name in server[:SERVER_CURVES_MAX]}
    always = ("tokens_per_s", "in_flight", "done")
    return [
        _chart(name, title, timeline, marks)
        for name, title in named.items()
        if name in always or any(point.value for point in timeline.curves[name])
    ]


def _chart(name: str, title: str, timeline: Timeline, marks: Sequence[tuple[float, str]]) -> Chart:
    points = timeline.curves[name]
    span_s = timeline.span_s
    tell = share_text if name.endswith("_share") else figure_text
    top = nice_top(max(point.value for point in points))
    last = points[-1].value
    titles = [f"{duration(point.at_s)}: {tell(point.value)}" for point in points]
    about = f"last {tell(last)}, highest {tell(max(point.value for point in points))}"
    plot = curve_plot(
        Curve(_runs(points, timeline), titles),
        span_s=span_s,
        top=top,
        marks=marks,
        label=f"{title} over {duration(span_s)} of work: {about}",
    )
    ticks = [duration(span_s * part / 4) if part else "0" for part in range(5)]
    return Chart(title, about, tell(top), tell(top / 2), ticks, plot)


def share_text(value: float) -> str:
    return f"{value:.1%}"


def figure_text(value: float) -> str:
    """Three digits are enough to read a curve."""
    return f"{value:.3g}" if abs(value) < 100 else compact(value)


def _runs(points: Sequence[Point], timeline: Timeline) -> list[list[Point]]:
    """The points of each attempt apart."""
    starts = [stint.offset_s for stint in timeline.stints]

    def attempt(point: Point) -> int:
        return sum(start <= point.at_s for start in starts)

    return [list(group) for _, group in groupby(points, key=attempt)]


def restart_marks(data: ReportData) -> list[tuple[float, str]]:
    """Where attempts after the first begin, and where a server was started again."""
    timeline = data.timeline
    marks = [(stint.offset_s, f"attempt {stint.attempt} begins") for stint in timeline.stints[1:]]
    for attempt in data.attempts:
        for launch in attempt.launches[1:]:
            at_s = timeline.place(launch.started_at)
            if at_s is not None:
                lowered = f" ({launch.lowered})" if launch.lowered else ""
                marks.append((at_s, f"server start {launch.number}{lowered}"))
    return sorted(marks)
