"""The report's plots as pictures of their own, with their labels: what MLflow shows as images."""

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from runner.report.data import ReportData
from runner.report.sections import Chart, Column, charts, length_columns, restart_marks
from runner.view.escape import safe_line

COLUMN_WIDTH, GAP, HEAD, ROW = 420, 40, 60, 76
CHART_HEIGHT, CHARTS_A_ROW = 210, 3
STYLE = Markup(
    "<style>text{font:13px system-ui,sans-serif;fill:#1d2129}.dim{fill:#5f6673}"
    ".head{font-weight:600}svg.plot{width:100%;height:100%}"
    "svg.plot line{vector-effect:non-scaling-stroke;stroke-width:1.5}"
    ".k-prompt{fill:#3a6ea5}.k-reasoning{fill:#8a5bb8}.k-answer{fill:#1b7f4d}"
    ".median{stroke:#1d2129;stroke-dasharray:3 2}.limit,.restart{stroke:#c02b2b}"
    ".restart{stroke-dasharray:4 3}.line{fill:none;stroke:#2f5bd7;stroke-width:1.8;"
    "vector-effect:non-scaling-stroke}.area{fill:#2f5bd7;opacity:.13}.hit{fill:none}</style>"
)


def lengths_figure(data: ReportData) -> str:
    """Length distributions: a column for each kind, a row for each category; "" without any."""
    columns = length_columns(data)
    rows = max((len(column.histograms) for column in columns), default=0)
    parts = [_column(c, left=GAP + n * (COLUMN_WIDTH + GAP)) for n, c in enumerate(columns)]
    width = GAP + len(columns) * (COLUMN_WIDTH + GAP)
    return _picture(parts, width=width, height=HEAD + rows * ROW + 20)


def _column(column: Column, *, left: int) -> Markup:
    parts = [_text(left, 24, column.title, "head")]
    for place, one in enumerate(column.histograms):
        top = HEAD + place * ROW
        parts += [
            _text(left, top, one.category, "head"),
            _text(left + COLUMN_WIDTH, top, one.about, "dim", anchor="end"),
            _frame(one.plot, left, top + 6, COLUMN_WIDTH, ROW - 28),
        ]
    bottom = HEAD + len(column.histograms) * ROW - 6
    return Markup("").join([*parts, *_ticks(column.ticks, left, bottom)])


def time_figure(data: ReportData) -> str:
    """The curves over time; "" without any."""
    drawn = charts(data.timeline, restart_marks(data))
    parts = [
        _chart(
            chart,
            left=GAP + place % CHARTS_A_ROW * (COLUMN_WIDTH + GAP),
            top=20 + place // CHARTS_A_ROW * CHART_HEIGHT,
        )
        for place, chart in enumerate(drawn)
    ]
    width = GAP + min(CHARTS_A_ROW, len(drawn)) * (COLUMN_WIDTH + GAP)
    rows = -(-len(drawn) // CHARTS_A_ROW)
    return _picture(parts, width=width, height=20 + rows * CHART_HEIGHT)


def _chart(chart: Chart, *, left: int, top: int) -> Markup:
    return Markup("").join(
        [
            _text(left, top + 14, chart.title, "head"),
            _text(left + COLUMN_WIDTH, top + 14, chart.about, "dim", anchor="end"),
            _frame(chart.plot, left, top + 24, COLUMN_WIDTH, CHART_HEIGHT - 70),
            _text(left + 4, top + 36, chart.top, "dim"),
            *_ticks(chart.ticks, left, top + CHART_HEIGHT - 30),
        ]
    )


def _ticks(ticks: Sequence[str], left: int, y: int) -> list[Markup]:
    apart = COLUMN_WIDTH / max(1, len(ticks) - 1)
    anchors = ["start", *["middle"] * (len(ticks) - 2), "end"]
    return [
        _text(left + round(place * apart), y, tick, "dim", anchor=anchor)
        for place, (tick, anchor) in enumerate(zip(ticks, anchors, strict=True))
    ]


def _text(x: int, y: int, text: str, kind: str, *, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        x, y, kind, anchor, safe_line(text)
    )


def _frame(plot: Markup, x: int, y: int, width: int, height: int) -> Markup:
    """A plot at a place, on a ground line."""
    return Markup(
        '<svg x="{}" y="{}" width="{}" height="{}">{}</svg>'
        '<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="#5f6673"/>'
    ).format(x, y, width, height, plot, x, x + width, y + height, y + height)


def _picture(parts: Sequence[Markup], *, width: int, height: int) -> str:
    if not parts:
        return ""
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            'height="{h}">{style}<rect width="100%" height="100%" fill="#fff"/>{parts}</svg>'
        ).format(w=width, h=height, style=STYLE, parts=Markup("").join(parts))
    )


FIGURES: Mapping[str, Callable[[ReportData], str]] = {
    "lengths.svg": lengths_figure,
    "time.svg": time_figure,
}
"""File beside the report -> what draws it."""
