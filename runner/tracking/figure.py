"""A small figure that compares jobs: one panel a metric, one bar a job. Pure, a string of SVG.

MLflow shows an SVG artifact as an image. Everything that comes from outside is escaped.
"""

import math
from collections.abc import Mapping
from html import escape

PANELS_MAX = 12
JOBS_MAX = 24
WIDTH = 1000
NAME_WIDTH = 360
BAR_HEIGHT = 18
HEAD_HEIGHT = 34


def bars(series: Mapping[str, Mapping[str, float | None]]) -> str:
    """metric -> job -> value as an SVG; bars of one metric share a scale that begins at 0.

    The first `PANELS_MAX` metrics and `JOBS_MAX` jobs; the table beside it has them all.
    """
    panels: list[str] = []
    top = 0
    for metric, values in list(series.items())[:PANELS_MAX]:
        shown = dict(list(values.items())[:JOBS_MAX])
        panels.append(_panel(metric, shown, top=top))
        top += HEAD_HEIGHT + BAR_HEIGHT * len(shown)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 10}" '
        'font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(panels)}</svg>'
    )


def _panel(metric: str, values: Mapping[str, float | None], *, top: int) -> str:
    finite = [abs(value) for value in values.values() if value is not None and math.isfinite(value)]
    most = max(finite, default=0.0) or 1.0
    rows = [
        _row(name, value, most=most, y=top + HEAD_HEIGHT + BAR_HEIGHT * place)
        for place, (name, value) in enumerate(values.items())
    ]
    head = f'<text x="8" y="{top + 24}" font-weight="600">{escape(metric)}</text>'
    return head + "".join(rows)


def _row(name: str, value: float | None, *, most: float, y: int) -> str:
    known = value is not None and math.isfinite(value)
    width = round(abs(value) / most * (WIDTH - NAME_WIDTH - 110)) if value and known else 0
    label = f"{value:,.4g}" if known else "not told"
    short = name if len(name) <= 52 else name[:51] + "…"
    return (
        f'<text x="{NAME_WIDTH - 8}" y="{y + 12}" text-anchor="end" fill="#333">'
        f"{escape(short)}<title>{escape(name)}</title></text>"
        f'<rect x="{NAME_WIDTH}" y="{y}" width="{width}" height="{BAR_HEIGHT - 4}" fill="#2a6fbb"/>'
        f'<text x="{NAME_WIDTH + width + 6}" y="{y + 12}" fill="#333">{label}</text>'
    )
