"""The coverage of draft vocabularies as a page: a curve for each category, and the table. Pure."""

import math
from collections.abc import Mapping
from html import escape

import numpy as np

from runner.export.coverage import SIZES, Counts, covered, ranked, sum_of

_WIDTH, _HEIGHT, _LEFT, _TOP = 860, 380, 56, 16
_LOWEST_SIZE = 256
_COLOURS = (
    "#111111",
    "#2a6fbb",
    "#c2410c",
    "#15803d",
    "#7e22ce",
    "#b45309",
    "#0e7490",
    "#be123c",
    "#4d7c0f",
)
_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2em;max-width:60em;color:#111;background:#fff}"
    "table{border-collapse:collapse}td,th{padding:.2em .9em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}tr+tr{border-top:1px solid #ddd}"
)


def coverage_page(
    by_category: Mapping[str, Counts], table: Mapping[str, Mapping[int, float]], size: int
) -> str:
    """A self-contained HTML page."""
    named = dict(by_category)
    order = ranked(sum_of(named))
    curves = {"all": covered(sum_of(named), order)}
    curves |= {name: covered(counts, order) for name, counts in named.items()}
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Draft vocabulary</title>'
        f"<style>{_STYLE}</style><h1>Draft vocabulary</h1>"
        "<p>The share of supervised tokens that the n most frequent ids cover. The ids are chosen "
        f"over all categories together; the chosen size is {size:,}.</p>"
        f"{_plot(curves, size)}{_table(table)}</html>\n"
    )


def _plot(
    curves: Mapping[str, "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"], size: int
) -> str:
    most = max(len(curve) - 1 for curve in curves.values())
    lines = [_grid(most), _mark(size, most)]
    for place, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        points = " ".join(f"{_x(n, most):.1f},{_y(float(curve[n])):.1f}" for n in _steps(most))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6">'
            f"<title>{escape(name)}</title></polyline>"
            f'<text x="{_WIDTH - 90}" y="{_HEIGHT - 40 - 15 * place}" fill="{colour}">'
            f"{escape(name)}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-size="12" role="img" aria-label="coverage by size">{"".join(lines)}</svg>'
    )


def _steps(most: int) -> list[int]:
    """Sizes at which a curve is drawn: evenly on a scale of logarithms."""
    low = min(_LOWEST_SIZE, most)
    return sorted({round(n) for n in np.geomspace(low, most, 120)}) if most else [0]


def _x(size: int, most: int) -> float:
    low = min(_LOWEST_SIZE, most)
    span = math.log(most / low) if most > low else 1.0
    return _LEFT + (_WIDTH - _LEFT - 110) * math.log(max(size, low) / low) / span if most else _LEFT


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - 30) * (1 - share)


def _grid(most: int) -> str:
    rows = [
        f'<line x1="{_LEFT}" x2="{_WIDTH - 110}" y1="{_y(s):.1f}" y2="{_y(s):.1f}" stroke="#ddd"/>'
        f'<text x="8" y="{_y(s) + 4:.1f}" fill="#555">{s:.0%}</text>'
        for s in (0, 0.25, 0.5, 0.75, 0.9, 1)
    ]
    columns = [
        f'<text x="{_x(n, most):.1f}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#555">'
        f"{n // 1024}k</text>"
        for n in (1_024, *SIZES, 131_072)
        if n <= most
    ]
    return "".join([*rows, *columns])


def _mark(size: int, most: int) -> str:
    x = _x(min(size, most), most)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - 30}" stroke="#999" '
        'stroke-dasharray="4 3"/>'
    )


def _table(table: Mapping[str, Mapping[int, float]]) -> str:
    sizes = list(next(iter(table.values())))
    head = "".join(f"<th>{size:,}</th>" for size in sizes)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{row[size]:.3%}</td>" for size in sizes)
        + "</tr>"
        for name, row in table.items()
    )
    return f"<table><tr><th>category</th>{head}</tr>{rows}</table>"
