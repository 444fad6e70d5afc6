"""Lengths against what the config expects of the category.

Covers: a sample that stopped after fewer tokens than the category's `expected.shortest`; over all
samples, a category whose mean output length is less than half or more than twice its
`expected.output_tokens`.
Does not cover: outputs cut by length (`finish`); categories for which nothing is expected (there
only an output of nothing but its stop is too short).

Reasons
    short  info  stopped after fewer tokens than the category's answers have
    moved  info  the category's mean output length is not what is expected of it

Example: a wrong chat template made a reasoning model answer at once: every sample was well-formed,
and the mean length of the maths category fell from 9,000 to 300 tokens.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from runner.records import (
    Expected,
    IdKind,
    Judgement,
    Outcome,
    Sample,
    SampleContext,
    SetFinding,
    Severity,
    Verdict,
)

ENOUGH_SAMPLES = 20
"""A mean over fewer samples than this says nothing."""
FACTOR = 2.0
"""How far a mean may be from what is expected, either way."""


class Lengths:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {"short": Severity.INFO, "moved": Severity.INFO}

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; skip for a cut output."""
        if sample.finish != "stop":
            return Verdict(outcome=Outcome.SKIP)
        size = len(context.output) - int((context.kinds[-1:] & IdKind.STOP).any())
        if size < context.expected.shortest:
            detail = f"{size} tokens; {context.expected.shortest} or more expected"
            return Verdict(outcome=Outcome.FAIL, reason="short", detail=detail)
        return Verdict(outcome=Outcome.PASS)

    def conclude(
        self, read: Callable[[], Iterable[Judgement]], expected: Mapping[str, Expected]
    ) -> list[SetFinding]:
        """A finding for each category whose mean is outside."""
        samples: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        for judgement in read():
            samples[judgement.category] += 1
            tokens[judgement.category] += judgement.output_tokens
        found = []
        for category, n in sorted(samples.items()):
            wanted = expected[category].output_tokens if category in expected else None
            mean = tokens[category] / n
            if wanted and n >= ENOUGH_SAMPLES and not wanted / FACTOR <= mean <= wanted * FACTOR:
                found.append(_moved(category, n, mean, wanted))
        return found


def _moved(category: str, samples: int, mean: float, wanted: int) -> SetFinding:
    return SetFinding(
        validator="",
        reason="moved",
        category=category,
        samples=samples,
        share=1.0,
        detail=f"mean {mean:,.0f} output tokens; {wanted:,} expected",
    )
