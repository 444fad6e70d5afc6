"""What a report tells of one run: plain data, read from the run's directory alone."""

from typing import NamedTuple

from runner.records import Kind, Record, SetFinding
from runner.report.attempts import AttemptFacts
from runner.report.series import Timeline
from runner.report.vocabulary import Vocabulary
from runner.stats import Stats
from runner.view.facts import Facts
from runner.view.sample_view import Ending, Piece

SEVERITIES = ("reject", "error", "flag", "info")
"""Most serious first."""


class Cell(NamedTuple):
    """One check's reason in one category."""

    category: str
    validator: str
    reason: str
    severity: str


class Text(NamedTuple):
    """A stretch of a sample to show: what it is, how many tokens, and its pieces."""

    kind: Kind
    tokens: int
    pieces: list[Piece]


class Finding(NamedTuple):
    """A verdict on a sample that did not pass."""

    severity: str
    validator: str
    reason: str
    detail: str


class Shown(NamedTuple):
    """One sample, decoded. `why` says what it was chosen for."""

    sample_id: str
    category: str
    why: tuple[str, ...]
    ending: Ending
    tokens: dict[str, int]
    findings: list[Finding]
    prompt: list[Text]
    output: list[Text]


class ReportData(Record, frozen=True, kw_only=True):
    """Everything on the page.

    `examples` maps each cell to the ids of some of its samples, those in `samples` among them.
    `note` says why no sample could be decoded, "" when they were; `vocabulary` is None where there
    is nothing to count.
    """

    facts: Facts
    stats: Stats
    findings: list[SetFinding]
    examples: dict[Cell, list[str]]
    samples: list[Shown]
    vocabulary: Vocabulary | None
    note: str
    timeline: Timeline
    attempts: list[AttemptFacts]
    settings: dict[str, str]
    provenance: dict[str, str]
    log_tail: str
    most_output_tokens: int | None
    made_at: float
