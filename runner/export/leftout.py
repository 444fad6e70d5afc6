"""left_out.jsonl: one line for each current sample that is not exported, with its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from runner.export.dealing import lines_of
from runner.export.rows import Survey, numbers_of
from runner.export.sources import Source
from runner.records import Record


class LeftOutLine(Record, frozen=True, kw_only=True):
    """A line of left_out.jsonl."""

    sample_id: str
    run: str
    category: str
    reason: str
    detail: str = ""

    @property
    def why(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class _Head(msgspec.Struct):
    sample_id: str
    category: str


def left_out_by_policy(sources: list[Source], survey: Survey) -> Iterator[LeftOutLine]:
    """The samples that the policy leaves out, in the order of writing. Raises DamagedShard."""
    reasons = survey.names.left_out.values()
    decoder = msgspec.json.Decoder(_Head)
    left_out = np.flatnonzero(survey.rows["left_out"])
    numbers = numbers_of(survey.rows[["run", "left_out"]], left_out)
    lines = lines_of(sources, survey.rows, left_out)
    for line, (run, reason) in zip(lines, numbers, strict=True):
        head, why = decoder.decode(line), reasons[reason]
        yield LeftOutLine(
            sample_id=head.sample_id,
            run=sources[run].given.name,
            category=head.category,
            reason=why.reason,
            detail=why.detail,
        )


def read_left_out(path: Path) -> Iterator[LeftOutLine]:
    """The lines of a file of them."""
    with path.open("rb") as file:
        for line in file:
            yield msgspec.json.decode(line, type=LeftOutLine)


def write_left_out(path: Path, lines: Iterable[LeftOutLine]) -> dict[str, dict[str, int]]:
    """Write the file; counts by category and reason."""
    found: dict[str, Counter[str]] = {}
    with path.open("wb") as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
            found.setdefault(line.category, Counter())[line.why] += 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}
