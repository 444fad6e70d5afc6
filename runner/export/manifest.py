"""manifest.json: what an export holds, where it came from, and that it is whole.

It holds no time, no path and no name of a machine: two exports of the same runs by the same policy
are the same bytes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from runner.export.formats import Options
from runner.export.policy import Policy
from runner.records import Record

EXPORT_SCHEMA = 1


class CategoryTotals(Record, frozen=True, kw_only=True):
    """What was exported of one category."""

    samples: int = 0
    prompt_tokens: int = 0
    supervised_tokens: int = 0

    def __add__(self, other: "CategoryTotals") -> "CategoryTotals":
        return CategoryTotals(
            samples=self.samples + other.samples,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            supervised_tokens=self.supervised_tokens + other.supervised_tokens,
        )


class PartState(Record, frozen=True, kw_only=True):
    """A finished part. `bytes` 0 and no file for one whose samples the format all refused."""

    split: str
    file: str
    bytes: int
    sha256: str
    categories: dict[str, CategoryTotals]
    notes: dict[str, int]
    refused: int


class RunEntry(Record, frozen=True, kw_only=True):
    """A run that was exported. `identity` is what made its data what it is."""

    run_id: str
    model: str
    verdict_set: str
    samples: int
    tokenizer_sha256: str
    template_sha256: str
    identity: dict[str, Any]


class FileEntry(Record, frozen=True, kw_only=True):
    """A file of samples."""

    file: str
    split: str
    bytes: int
    sha256: str
    samples: int
    prompt_tokens: int
    supervised_tokens: int


class Counts(Record, frozen=True, kw_only=True):
    """The accounting: `samples = exported + left_out`, always."""

    samples: int
    exported: int
    left_out: int

    @property
    def balanced(self) -> bool:
        return self.samples == self.exported + self.left_out


class Manifest(Record, frozen=True, kw_only=True):
    """The content of manifest.json.

    `digest` is of everything that the bytes depend on. `left_out` counts by category, then by
    reason with its detail ("rejected: vocab.unassigned").
    `notes` are what the format counted, `summary` and `words` what it says of the whole. `files`
    names every file of the export but the manifest itself; `splits` tells how many samples each
    split has.
    """

    schema: int = EXPORT_SCHEMA
    format: str
    runner_version: str
    digest: str
    policy: Policy
    options: Options
    runs: list[RunEntry]
    counts: Counts
    splits: dict[str, CategoryTotals]
    categories: dict[str, CategoryTotals]
    left_out: dict[str, dict[str, int]]
    notes: dict[str, int]
    summary: dict[str, Any]
    words: list[str]
    parts: list[FileEntry]
    files: list[str]


def total(values: Iterable[CategoryTotals]) -> CategoryTotals:
    """All of them together."""
    whole = CategoryTotals()
    for value in values:
        whole += value
    return whole


def file_entry(part: PartState) -> FileEntry:
    """A part as the manifest tells of it."""
    whole = total(part.categories.values())
    return FileEntry(
        file=part.file,
        split=part.split,
        bytes=part.bytes,
        sha256=part.sha256,
        samples=whole.samples,
        prompt_tokens=whole.prompt_tokens,
        supervised_tokens=whole.supervised_tokens,
    )


def by_category(parts: Iterable[PartState]) -> dict[str, CategoryTotals]:
    """What was exported of each category."""
    found: dict[str, CategoryTotals] = {}
    for part in parts:
        for name, totals in part.categories.items():
            found[name] = found.get(name, CategoryTotals()) + totals
    return dict(sorted(found.items()))


def summed_notes(parts: Iterable[PartState]) -> dict[str, int]:
    """The notes of all parts together."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part.notes)
    return dict(sorted(found.items()))
