"""Plots as SVG that stretches: pure functions from figures to markup, without a size of their own.

A plot holds shapes only. Its labels are HTML around it, evenly spaced, so that text keeps its size
at any width. Colours come from the page's style sheet by class.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from runner.report.series import Point
from runner.stats import Distribution

WIDTH, HEIGHT = 1000, 100
BINS = 48
TICKS = 5


class LogAxis(NamedTuple):
    """An axis from 2**first to 2**last, tokens; `step` octaves from tick to tick."""

    first: int
    last: int
    step: int

    @property
    def ticks(self) -> list[int]:
        return [2**power for power in range(self.first, self.last + 1, self.step)]

    def x(self, value: float) -> float:
        """Where a value lies, 0 to WIDTH."""
        share = (math.log2(max(value, 1e-9)) - self.first) / (self.last - self.first)
        return WIDTH * min(1.0, max(0.0, share))


def log_axis(distributions: Sequence[Distribution]) -> LogAxis:
    """One axis for all, just wide enough, with at most `TICKS` evenly spaced ticks. Zeros have no
    place on it."""
    values = [value for one in distributions for value in one.counts if value > 0]
    first = int(math.log2(min(values, default=1)))
    octaves = max(1, math.ceil(math.log2(max(values, default=1) + 1)) - first)
    step = math.ceil(octaves / (TICKS - 1))
    return LogAxis(first, first + step * math.ceil(octaves / step), step)


def bins_of(distribution: Distribution, axis: LogAxis) -> list[tuple[int, int, int]]:
    """(lowest, lowest of the next, count) over whole numbers, zeros left out."""
    octaves = axis.last - axis.first
    each = max(1, BINS // octaves)
    edges = sorted({round(2 ** (axis.first + k / each)) for k in range(octaves * each + 1)})
    edges[-1] += 1  # the last bin holds the axis's end itself
    counts = [0] * (len(edges) - 1)
    place = 0
    for value, count in sorted(distribution.counts.items()):
        if value <= 0:
            continue
        while place < len(counts) - 1 and value >= edges[place + 1]:
            place += 1
        counts[place] += count
    return [(low, high, n) for low, high, n in zip(edges, edges[1:], counts, strict=False)]


def histogram(
    distribution: Distribution, axis: LogAxis, *, limit: int | None, kind: str, label: str
) -> Markup:
    """Bars over a logarithmic axis, the median marked, and the limit where it lies on the axis."""
    bins = bins_of(distribution, axis)
    most = max((count for _, _, count in bins), default=0) or 1
    bars = [
        _bar(axis.x(low), axis.x(high), count / most, f"{_span(low, high)} tokens: {count:,}")
        for low, high, count in bins
        if count
    ]
    lines = [_upright(axis.x(distribution.quantile(0.5)), "median", "median")] if bars else []
    if limit is not None and 2**axis.first < limit <= 2**axis.last:
        lines.append(_upright(axis.x(limit), "limit", f"max_new_tokens {limit:,}"))
    return _svg([*bars, *lines], kind=f"k-{kind}", label=label)


def _span(low: int, high: int) -> str:
    return f"{low:,}" if high - low <= 1 else f"{low:,} to {high - 1:,}"


def _bar(left: float, right: float, share: float, title: str) -> Markup:
    height = max(1.5, share * (HEIGHT - 4))
    width = max(2.0, right - left - 1)
    return Markup(
        '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    ).format(left, HEIGHT - height, width, height, title)


def _upright(x: float, name: str, title: str) -> Markup:
    return Markup(
        '<line class="{}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{}"><title>{}</title></line>'
    ).format(name, HEIGHT, title, x=x)


def _svg(parts: Sequence[Markup], *, kind: str, label: str) -> Markup:
    return Markup(
        '<svg class="plot {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(kind, WIDTH, HEIGHT, label, Markup("").join(parts))


def nice_top(value: float) -> float:
    """The round number at or above a value that a scale from 0 ends at."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(
        next(size * f for f in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if size * f >= value * (1 - 1e-9))
    )


class Curve(NamedTuple):
    """A curve to draw: its runs of points (one for each attempt), and the texts of all points."""

    runs: list[list[Point]]
    titles: list[str]


def curve_plot(
    curve: Curve, *, span_s: float, top: float, marks: Sequence[tuple[float, str]], label: str
) -> Markup:
    """A line over 0 to `span_s`, 0 to `top`; marks are uprights at a time; the line is broken
    between attempts. Every point tells its text under the pointer."""
    span = max(span_s, 1e-9)
    spots = [[_spot(point, span, top) for point in run] for run in curve.runs]
    lines = [_line(run) for run in spots]
    flat = [spot for run in spots for spot in run]
    hits = [_hit(flat, place, title) for place, title in enumerate(curve.titles)]
    uprights = [_upright(WIDTH * at_s / span, "restart", text) for at_s, text in marks]
    return _svg([*lines, *uprights, *hits], kind="curve", label=label)


def _spot(point: Point, span_s: float, top: float) -> tuple[float, float]:
    share = min(1.0, max(0.0, point.value / top))
    return WIDTH * min(1.0, point.at_s / span_s), HEIGHT - 2 - share * (HEIGHT - 4)


def _line(spots: Sequence[tuple[float, float]]) -> Markup:
    """The line and the area under it; one point alone is a short dash."""
    if len(spots) == 1:
        (x, y), half = spots[0], 4.0
        spots = [(max(0.0, x - half), y), (min(float(WIDTH), x + half), y)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    area = f"{spots[0][0]:.1f},{HEIGHT} {path} {spots[-1][0]:.1f},{HEIGHT}"
    return Markup('<polygon class="area" points="{}"/><polyline class="line" points="{}"/>').format(
        area, path
    )


def _hit(spots: Sequence[tuple[float, float]], place: int, title: str) -> Markup:
    """The stretch of the plot that is nearest to a point."""
    x = spots[place][0]
    left = (spots[place - 1][0] + x) / 2 if place else 0.0
    right = (spots[place + 1][0] + x) / 2 if place + 1 < len(spots) else float(WIDTH)
    return Markup(
        '<rect class="hit" x="{:.1f}" y="0" width="{:.1f}" height="{}"><title>{}</title></rect>'
    ).format(left, max(1.0, right - left), HEIGHT, title)


def share_bar(parts: Sequence[tuple[str, int]], *, label: str) -> Markup:
    """One bar of parts that make a whole: (class, count)."""
    whole = sum(count for _, count in parts) or 1
    x, rects = 0.0, []
    for name, count in parts:
        width = WIDTH * count / whole
        if count:
            rects.append(
                Markup(
                    '<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="{}">'
                    "<title>{} {:,}</title></rect>"
                ).format(f"c-{name}", x, max(2.0, width), HEIGHT, name, count)
            )
        x += width
    return _svg(rects, kind="shares", label=label)
