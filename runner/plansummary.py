"""plan/summary.json: what planning found, by part. A view of plan/, for people and the report.

It is added to when the plan grows, and only for samples that were new then.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from runner.rundir import RunDir, replace_file

OVER = "over_context"
LISTED_HITS = 1_000
"""Exclusion hits that are listed by id; the rest is only counted (all are in plan/)."""


class OverContext(msgspec.Struct, kw_only=True):
    """The prompts skipped as `over_context`: the token counts at both ends, and what has room."""

    shortest: int = 0
    longest: int = 0
    room: int = 0

    def __str__(self) -> str:
        ends = dict.fromkeys(f"{one:,}" for one in (self.shortest, self.longest))
        return f"{OVER}: {' to '.join(ends)} prompt tokens, room for {self.room:,}"


class PartSummary(msgspec.Struct, kw_only=True):
    """`prompts` are those that can be sent, each counted once however many samples (n) it owes.
    `lengths` counts them by the bits of their token counts: under 2, 4, 8, ... tokens."""

    prompts: int = 0
    skipped: dict[str, int] = {}
    duplicates: int = 0
    escaped: int = 0
    """Prompts that hold the text of a control token, rendered as plain text."""
    prompt_tokens: int = 0
    longest_tokens: int = 0
    lengths: dict[int, int] = {}
    clipped: int = 0
    """Prompts that are asked for fewer than max_new_tokens (prompts.over_context=clip)."""
    over: OverContext = msgspec.field(default_factory=OverContext)
    excluded: list[str] = []

    def skip(self, reason: str) -> None:
        """Count a prompt that will not be sent."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def leave_out(self, tokens: int, *, room: int) -> None:
        """Count a prompt that leaves no room for its answer."""
        self.skip(OVER)
        over = self.over
        over.shortest = min(over.shortest or tokens, tokens)
        over.longest, over.room = max(over.longest, tokens), room

    def measure(self, tokens: int) -> None:
        """Count a prompt that will be sent."""
        self.prompts += 1
        self.prompt_tokens += tokens
        self.longest_tokens = max(self.longest_tokens, tokens)
        bits = tokens.bit_length()
        self.lengths[bits] = self.lengths.get(bits, 0) + 1

    def forget_lengths(self) -> None:
        """Before all prompts are counted anew, against other limits."""
        self.prompts = self.prompt_tokens = self.longest_tokens = self.clipped = 0
        self.lengths, self.over = {}, OverContext()
        self.skipped.pop(OVER, None)

    def add(self, other: "PartSummary") -> None:
        """The prompts of another plan of this part, too."""
        for field in ("prompts", "duplicates", "escaped", "prompt_tokens", "clipped"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.longest_tokens = max(self.longest_tokens, other.longest_tokens)
        self.excluded += other.excluded
        self.skipped = dict(Counter(self.skipped) + Counter(other.skipped))
        self.lengths = dict(Counter(self.lengths) + Counter(other.lengths))
        both = [one for one in (self.over, other.over) if one.longest]
        if both:
            self.over = OverContext(
                shortest=min(one.shortest for one in both),
                longest=max(one.longest for one in both),
                room=min(one.room for one in both),
            )


class PlanSummary(msgspec.Struct, kw_only=True):
    """By part name."""

    parts: dict[str, PartSummary] = {}

    def part(self, name: str) -> PartSummary:
        return self.parts.setdefault(name, PartSummary())

    def lines(self) -> list[str]:
        """A line for each part, for a person, and one more for what was found among its prompts."""
        return [line for name, part in self.parts.items() for line in _lines(name, part)]


def _lines(name: str, part: PartSummary) -> Iterator[str]:
    mean = part.prompt_tokens / part.prompts if part.prompts else 0
    line = f"{name}: {part.prompts:,} prompts, {mean:,.0f} tokens on average"
    line += f", {part.longest_tokens:,} at most"
    if part.skipped:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(part.skipped.items()))
        line += f"; skipped {sum(part.skipped.values()):,} ({reasons})"
    yield line
    if notes := list(_notes(part)):
        yield f"  {'; '.join(notes)}"


def _notes(part: PartSummary) -> Iterator[str]:
    if part.over.longest:
        yield str(part.over)
    if part.clipped:
        yield f"max_new_tokens clipped to the room that {part.clipped:,} of them leave"
    if part.duplicates:
        yield f"{part.duplicates:,} duplicates"
    if part.escaped:
        yield f"special-token text made plain in {part.escaped:,}"


def read_summary(run: RunDir) -> PlanSummary:
    """The summary on disk; an empty one when there is none."""
    path = run.plan / "summary.json"
    if not path.is_file():
        return PlanSummary()
    found: Any = msgspec.json.decode(path.read_bytes(), type=PlanSummary)
    return found if isinstance(found, PlanSummary) else PlanSummary()


def write_summary(run: RunDir, summary: PlanSummary) -> None:
    """Replace it."""
    data = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    replace_file(run.plan / "summary.json", data)
