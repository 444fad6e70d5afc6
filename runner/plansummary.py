"""plan/summary.json: what planning found, by part. A view of plan/, for people and the report.

It is added to when the plan grows, and only for samples that were new then.
"""

from typing import Any

import msgspec

from runner.rundir import RunDir, replace_file

LISTED_HITS = 1_000
"""Exclusion hits that are listed by id; the rest is only counted (all are in plan/)."""


class PartSummary(msgspec.Struct, kw_only=True):
    """`prompts` are those that can be sent, each counted once however many samples (n) it owes."""

    prompts: int = 0
    skipped: dict[str, int] = {}
    duplicates: int = 0
    escaped: int = 0
    """Prompts that hold the text of a control token, rendered as plain text."""
    prompt_tokens: int = 0
    longest_tokens: int = 0
    excluded: list[str] = []

    def skip(self, reason: str) -> None:
        """Count a prompt that will not be sent."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def count(self, tokens: int, *, escaped: bool) -> None:
        """Count a prompt that will be sent."""
        self.prompts += 1
        self.escaped += escaped
        self.prompt_tokens += tokens
        self.longest_tokens = max(self.longest_tokens, tokens)


class PlanSummary(msgspec.Struct, kw_only=True):
    """By part name."""

    parts: dict[str, PartSummary] = {}

    def part(self, name: str) -> PartSummary:
        return self.parts.setdefault(name, PartSummary())

    def lines(self) -> list[str]:
        """One line for each part, for a person."""
        return [_line(name, part) for name, part in self.parts.items()]


def _line(name: str, part: PartSummary) -> str:
    mean = part.prompt_tokens / part.prompts if part.prompts else 0
    line = f"{name}: {part.prompts:,} prompts, {mean:,.0f} tokens on average"
    line += f", {part.longest_tokens:,} at most"
    if part.skipped:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(part.skipped.items()))
        line += f"; skipped {sum(part.skipped.values()):,} ({reasons})"
    if part.duplicates:
        line += f"; {part.duplicates:,} duplicates"
    if part.escaped:
        line += f"; special-token text made plain in {part.escaped:,}"
    return line


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
