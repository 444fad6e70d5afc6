"""The vocabulary section of the page: the coverage table, and a curve for each category. Pure."""

import math

import numpy as np
import numpy.typing as npt

from runner.export.coverage import SIZES, coverage_table, covered, ranked, sum_of
from runner.report.plots import Curve, curve_plot
from runner.report.sections import Chart, share_text, short
from runner.report.series import Point
from runner.report.vocabulary import Vocabulary

_LOWEST_SIZE = 256
_POINTS = 60


def coverage_rows(found: Vocabulary) -> list[tuple[str, list[str]]]:
    """(category, shares) for the sizes of `SIZES`; all together last."""
    table = coverage_table(found.counts)
    names = [*found.counts, *(["all"] if len(found.counts) > 1 else [])]
    return [(name, [f"{table[name][size]:.3%}" for size in SIZES]) for name in names]


def coverage_charts(found: Vocabulary) -> list[Chart]:
    """A curve for each category: the share that the n most frequent ids of all cover."""
    order = ranked(sum_of(found.counts))
    return [_chart(name, covered(counts, order)) for name, counts in found.counts.items()]


def _chart(name: str, shares: npt.NDArray[np.float64]) -> Chart:
    most = len(shares) - 1
    low = math.log2(min(_LOWEST_SIZE, most))
    span = max(math.log2(most) - low, 1e-9)
    sizes = sorted({round(n) for n in np.geomspace(2**low, most, _POINTS)})
    points = [Point(math.log2(size) - low, float(shares[size])) for size in sizes]
    titles = [f"{size:,} ids: {share_text(float(shares[size]))}" for size in sizes]
    needed = [f"{share:.0%} by {int(np.argmax(shares >= share)):,}" for share in (0.9, 0.99)]
    about = ", ".join(needed)
    plot = curve_plot(
        Curve([points], titles), span_s=span, top=1.0, marks=[], label=f"{name}: {about}"
    )
    ticks = [short(round(2 ** (low + span * part / 4))) for part in range(5)]
    return Chart(name, about, "100%", "50%", ticks, plot)
