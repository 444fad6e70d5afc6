"""One pure fold over samples and verdicts: the live display, `runs show`, the report and MLflow
all read the same figures from it.

Distributions are exact: a length is counted by its value, so memory is bounded by the number of
different lengths (at most the context length), not by the number of samples.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from runner.records import Judgement


class Distribution:
    """Counts by value, with exact quantiles."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        self.counts[value] += 1

    def __len__(self) -> int:
        return self.counts.total()

    @property
    def total(self) -> int:
        return sum(value * count for value, count in self.counts.items())

    @property
    def mean(self) -> float:
        return self.total / len(self) if self.counts else float("nan")

    @property
    def min(self) -> int:
        return min(self.counts, default=0)

    @property
    def max(self) -> int:
        return max(self.counts, default=0)

    def quantile(self, share: float) -> int:
        """The smallest value that at least `share` of the values do not exceed; 0 when empty."""
        needed, seen = share * len(self), 0
        for value in sorted(self.counts):
            seen += self.counts[value]
            if seen >= needed:
                return value
        return 0

    def merge(self, other: "Distribution") -> None:
        self.counts.update(other.counts)


LENGTH_NAMES = ("prompt", "reasoning", "answer", "total")


@dataclass
class Score:
    """The mean of one validator's scores, over all the things that they are shares of."""

    total: float = 0.0
    weight: int = 0

    def add(self, score: float, weight: int) -> None:
        self.total += score * weight
        self.weight += weight

    def merge(self, other: "Score") -> None:
        self.total += other.total
        self.weight += other.weight

    @property
    def mean(self) -> float:
        """NaN when nothing was scored."""
        return self.total / self.weight if self.weight else float("nan")


@dataclass
class CategoryStats:
    """The figures of one category."""

    ok: int = 0
    rejected: int = 0
    flagged: int = 0
    """Samples, rejected ones among them, with at least one flagged reason."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    finish: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(validator, reason, severity) of failed checks; outcome `error` has severity "error"."""
    scores: dict[str, Score] = field(default_factory=dict)
    """By validator, for those that give one."""
    lengths: dict[str, Distribution] = field(
        default_factory=lambda: {name: Distribution() for name in LENGTH_NAMES}
    )

    @property
    def samples(self) -> int:
        return self.ok + self.rejected

    @property
    def truncated_share(self) -> float:
        """Share of samples cut by length; NaN without samples."""
        return self.finish["length"] / self.samples if self.samples else float("nan")

    def merge(self, other: "CategoryStats") -> None:
        self.ok += other.ok
        self.rejected += other.rejected
        self.flagged += other.flagged
        self.prompt_tokens += other.prompt_tokens
        self.output_tokens += other.output_tokens
        self.finish.update(other.finish)
        self.reasons.update(other.reasons)
        for name, score in other.scores.items():
            self.scores.setdefault(name, Score()).merge(score)
        for name, distribution in other.lengths.items():
            self.lengths[name].merge(distribution)


class VerdictFigures(msgspec.Struct, gc=False):
    """What the fold needs of a verdict: decoding no more halves the time of a million."""

    outcome: str
    reason: str = ""
    severity: str = ""
    score: float | None = None
    weight: int = 1


class JudgementFigures(msgspec.Struct, gc=False):
    """What the fold needs of a line of verdicts/."""

    category: str
    finish: str
    prompt_tokens: int
    output_tokens: int
    reasoning_tokens: int
    answer_tokens: int
    tool_call_tokens: int
    rejected: bool
    verdicts: dict[str, VerdictFigures]


class Stats:
    """The fold: `add` the judgement of each current sample once."""

    def __init__(self) -> None:
        self.categories: dict[str, CategoryStats] = {}

    def add(self, judgement: Judgement | JudgementFigures) -> None:
        if judgement.category not in self.categories:
            self.categories[judgement.category] = CategoryStats()
        one = self.categories[judgement.category]
        if judgement.rejected:
            one.rejected += 1
        else:
            one.ok += 1
        one.prompt_tokens += judgement.prompt_tokens
        one.output_tokens += judgement.output_tokens
        one.finish[judgement.finish] += 1
        flagged = False
        for failed in failed_checks(judgement):
            one.reasons[failed] += 1
            flagged = flagged or failed[2] == "flag"
        one.flagged += flagged
        for name, verdict in judgement.verdicts.items():
            if verdict.score is not None:
                one.scores.setdefault(name, Score()).add(verdict.score, verdict.weight)
        one.lengths["prompt"].add(judgement.prompt_tokens)
        one.lengths["reasoning"].add(judgement.reasoning_tokens)
        one.lengths["answer"].add(judgement.answer_tokens + judgement.tool_call_tokens)
        one.lengths["total"].add(judgement.prompt_tokens + judgement.output_tokens)

    def all(self) -> CategoryStats:
        """All categories as one."""
        whole = CategoryStats()
        for one in self.categories.values():
            whole.merge(one)
        return whole


def failed_checks(judgement: Judgement | JudgementFigures) -> Iterable[tuple[str, str, str]]:
    """(validator, reason, severity) of each check that failed or broke (severity "error")."""
    for name, verdict in judgement.verdicts.items():
        if verdict.outcome in ("fail", "error"):
            yield name, verdict.reason, verdict.severity or "error"
