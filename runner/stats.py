"""One pure fold over samples and verdicts: the live display, `runs show`, the report and MLflow
all read the same figures from it.

Distributions are exact: a length is counted by its value, so memory is bounded by the number of
different lengths (at most the context length), not by the number of samples.
"""

import itertools
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from runner.records import JudgedVerdict, Judgement


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


class VerdictFigures(msgspec.Struct, gc=False):
    """What the fold needs of a verdict."""

    outcome: str
    reason: str = ""
    severity: str = ""
    score: float | None = None
    weight: int = 1


class JudgementFigures(msgspec.Struct, gc=False):
    """What the fold needs of a line of verdicts/. Its verdicts stay JSON: most samples have the
    very same ones, and those are decoded once."""

    category: str
    finish: str
    prompt_tokens: int
    output_tokens: int
    reasoning_tokens: int
    answer_tokens: int
    tool_call_tokens: int
    rejected: bool
    verdicts: msgspec.Raw


_verdicts_decoder = msgspec.json.Decoder(dict[str, VerdictFigures])
_DETAIL = re.compile(rb',"detail":"(?!")[^"\\]*(?:\\.[^"\\]*)*"')
"""A verdict's text, that the fold does not need: without it most verdicts that failed are the same.
It cannot match inside of another text, where a quote has a backslash before it."""
BATCH = 4096
"""Judgements that are folded at a time; they are all in memory."""


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

    def add_verdicts(
        self, verdicts: Mapping[str, JudgedVerdict] | Mapping[str, VerdictFigures], times: int
    ) -> None:
        """The verdicts that so many samples have."""
        flagged = False
        for name, verdict in verdicts.items():
            if verdict.outcome in ("fail", "error"):
                self.reasons[name, verdict.reason, verdict.severity or "error"] += times
                flagged = flagged or verdict.severity == "flag"
            if verdict.score is not None:
                self.scores.setdefault(name, Score()).add(verdict.score, verdict.weight * times)
        self.flagged += flagged * times

    def add_group(self, group: Sequence["JudgementFigures"]) -> None:
        """Judgements of this category, all at once: a list for each column, as a Counter is fastest
        with lists."""
        rejected = sum([one.rejected for one in group])
        prompt = [one.prompt_tokens for one in group]
        output = [one.output_tokens for one in group]
        self.rejected += rejected
        self.ok += len(group) - rejected
        self.prompt_tokens += sum(prompt)
        self.output_tokens += sum(output)
        self.finish.update([one.finish for one in group])
        for raw, times in _count_verdicts(group).items():
            self.add_verdicts(_verdicts_decoder.decode(raw), times)
        lengths = {name: distribution.counts for name, distribution in self.lengths.items()}
        lengths["prompt"].update(prompt)
        lengths["reasoning"].update([one.reasoning_tokens for one in group])
        lengths["answer"].update([one.answer_tokens + one.tool_call_tokens for one in group])
        lengths["total"].update(map(operator.add, prompt, output))

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


def _count_verdicts(group: Sequence[JudgementFigures]) -> Counter[bytes]:
    """How often there is which verdicts object, as JSON without its texts."""
    counted: Counter[bytes] = Counter()
    for raw, times in Counter([bytes(one.verdicts) for one in group]).items():
        counted[_DETAIL.sub(b"", raw)] += times
    return counted


class Stats:
    """The fold: `add` the judgement of each current sample once."""

    def __init__(self) -> None:
        self.categories: dict[str, CategoryStats] = {}

    def add(self, judgement: Judgement) -> None:
        one = self._of(judgement.category)
        if judgement.rejected:
            one.rejected += 1
        else:
            one.ok += 1
        one.prompt_tokens += judgement.prompt_tokens
        one.output_tokens += judgement.output_tokens
        one.finish[judgement.finish] += 1
        one.add_verdicts(judgement.verdicts, 1)
        one.lengths["prompt"].add(judgement.prompt_tokens)
        one.lengths["reasoning"].add(judgement.reasoning_tokens)
        one.lengths["answer"].add(judgement.answer_tokens + judgement.tool_call_tokens)
        one.lengths["total"].add(judgement.prompt_tokens + judgement.output_tokens)

    def add_all(self, judgements: Iterable[JudgementFigures]) -> None:
        """`add` for each of many, at a third of the cost."""
        left = iter(judgements)
        while batch := list(itertools.islice(left, BATCH)):
            groups: defaultdict[str, list[JudgementFigures]] = defaultdict(list)
            for one in batch:
                groups[one.category].append(one)
            for category, group in groups.items():
                self._of(category).add_group(group)

    def _of(self, category: str) -> CategoryStats:
        if category not in self.categories:
            self.categories[category] = CategoryStats()
        return self.categories[category]

    def all(self) -> CategoryStats:
        """All categories as one."""
        whole = CategoryStats()
        for one in self.categories.values():
            whole.merge(one)
        return whole


def failed_checks(judgement: Judgement) -> Iterable[tuple[str, str, str]]:
    """(validator, reason, severity) of each check that failed or broke (severity "error")."""
    for name, verdict in judgement.verdicts.items():
        if verdict.outcome in ("fail", "error"):
            yield name, verdict.reason, verdict.severity or "error"
