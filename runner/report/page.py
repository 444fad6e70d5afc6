"""The page: one HTML file with everything in it. Nothing is loaded and no foreign script can run.

Every value passes through `visible` (control, bidi and format characters become escapes that can
be seen) and through the template engine's HTML escape. The content security policy allows the one
style sheet and the one script of this package, by hash, and nothing else: no network, no frames,
no handlers in attributes.
"""

import base64
import hashlib
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup, escape

from runner.export.coverage import SIZES
from runner.report import overview, sections
from runner.report.coverage import coverage_charts, coverage_rows
from runner.report.data import ReportData, Shown
from runner.view.escape import escapes_of, safe, safe_line
from runner.view.figures import duration, plural

SAMPLES_BYTES_MAX = 6_000_000
"""What all samples may take, so that the file stays under 10 MB whatever the model wrote."""
PEEK_CHARS = 160


def render(data: ReportData) -> str:
    """The whole page."""
    css, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    marks = sections.restart_marks(data)
    groups, left_out = sample_groups(data.samples)
    return (
        _environment()
        .get_template("page.html")
        .render(
            data=data,
            facts=data.facts,
            state=data.facts.state,
            policy=policy,
            css=css,
            script=script,
            cards=overview.cards(data),
            accounting=overview.accounting(data.facts.counts),
            finishes=overview.finishes(data.stats.all()),
            notes=overview.notes(data),
            category_rows=overview.category_rows(data),
            categories=sorted(data.stats.categories),
            matrix=sections.matrix(data),
            columns=sections.length_columns(data),
            length_table=sections.length_table(data),
            charts=sections.charts(data.timeline, marks),
            marks=[(duration(at_s), text) for at_s, text in marks],
            vocabulary=data.vocabulary,
            vocabulary_sizes=[sections.short(size) for size in SIZES],
            coverage_rows=coverage_rows(data.vocabulary) if data.vocabulary else [],
            coverage_charts=coverage_charts(data.vocabulary) if data.vocabulary else [],
            groups=groups,
            left_out=left_out,
            kinds=("prompt", "reasoning", "answer", "tool_call"),
        )
    )


@lru_cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runner.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    environment.filters |= {"clock": clock, "duration": duration, "marked": marked, "word": word}
    environment.globals["plural"] = plural
    return environment


def visible(value: Any) -> Any:
    """What a template prints: text without anything hidden in it."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def marked(text: str) -> Markup:
    """Text of a model, its escapes told apart from what it wrote."""
    parts = (
        f'<i class="esc">{escape(piece)}</i>' if is_escape else escape(piece)
        for piece, is_escape in _joined(text)
    )
    return Markup("".join(parts))  # noqa: S704 - every piece is escaped


def _joined(text: str) -> Iterator[tuple[str, bool]]:
    """The stretches of `escapes_of`, neighbouring escapes as one."""
    pending = ""
    for piece, is_escape in escapes_of(text):
        if is_escape:
            pending += piece
            continue
        if pending:
            yield pending, True
            pending = ""
        yield piece, False
    if pending:
        yield pending, True


def word(text: str) -> str:
    """`tool_call` -> `tool call`."""
    return text.replace("_", " ")


def clock(at: float) -> str:
    """Unix seconds as a moment in UTC; "-" for one that is not known."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else "-"


def _asset(name: str) -> Markup:
    return Markup(files("runner.report").joinpath(name).read_text(encoding="utf-8"))  # noqa: S704 - ours


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


class Group(NamedTuple):
    """Samples under one heading, each as markup."""

    title: str
    samples: list[Markup]


HEADINGS = {"shortest": "Shortest", "longest": "Longest", "at random": "At random"}
BY_REASON = "By reason"


def sample_groups(samples: Sequence[Shown]) -> tuple[list[Group], int]:
    """Samples under headings, within the bytes that they may take; and how many were left out."""
    template = _environment().get_template("sample.html")
    groups = {title: Group(title, []) for title in (*HEADINGS.values(), BY_REASON)}
    size = 0
    for place, one in enumerate(samples):
        content = Markup(template.render(one=one, peek=peek(one), find=find_text(one)))  # noqa: S704 - escaped by the template
        size += len(content.encode())
        if size > SAMPLES_BYTES_MAX:
            left_out = len(samples) - place
            break
        groups[heading(one)].samples.append(content)
    else:
        left_out = 0
    return [group for group in groups.values() if group.samples], left_out


def heading(one: Shown) -> str:
    """Where a sample stands: by what it was chosen for first."""
    return HEADINGS.get(one.why[0].partition(",")[0], BY_REASON)


def peek(one: Shown) -> str:
    """The beginning of the output on one line."""
    pieces = (piece.text for text in one.output for piece in text.pieces)
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > PEEK_CHARS:
            break
    return safe_line(" ".join(text.split()))[:PEEK_CHARS]


def find_text(one: Shown) -> str:
    """What the filter looks through."""
    reasons = [f"{f.severity} {f.validator} {f.reason}" for f in one.findings]
    words = [one.sample_id, one.category, one.ending.text, *one.why, *reasons, peek(one)]
    return " ".join(words).lower()
