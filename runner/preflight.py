"""What is known of a plan before anything is sent: which prompts fit, and what stops the run. Pure.

    fit        whether a prompt and its answer fit, and with how many new tokens. Asked when a
               prompt is planned, again when the server has told its own limits (runner.refit), and
               for each request under `prompts.over_context=clip`
    refuse     `prompts.stop_on`: the findings at which a run stops
    lines      what a person is shown

A prompt that cannot be sent is skipped with its reason (runner.prompts.shape.REASONS). Two findings
skip nothing by themselves: `duplicate` where duplicates are kept, and `special_token_text` where
such text is made plain.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from runner.config import Config, OverContext
from runner.engines.base import EngineInfo
from runner.errors import ConfigError, MachineError
from runner.plansummary import OVER, PartSummary, PlanSummary
from runner.prompts.shape import REASONS
from runner.records import NOT_TOLD, Record, SamplingParams

LEAST_ANSWER = 64
"""A prompt that leaves room for fewer new tokens than this is skipped, not clipped."""
BESIDE_THE_LONGEST = 4
"""SGLang's longest prompt (max_req_input_len) leaves 5 tokens below its limit for a request, and an
answer ends one before that limit. What is above is clamped without a word."""
COLUMNS = 8
"""Of the table of lengths."""


class Limits(Record, frozen=True, kw_only=True):
    """What fits: a prompt and its answer share the context. `max_input`: the longest prompt that
    the server takes. `least`: the fewest new tokens to which an answer is clipped, 0 = never."""

    context_length: int
    max_new_tokens: int
    max_input: int = NOT_TOLD
    least: int = 0

    @property
    def longest(self) -> int:
        """The longest prompt with room for all of max_new_tokens."""
        room = self.context_length - self.max_new_tokens
        return room if self.max_input == NOT_TOLD else min(room, self.max_input)


class Fit(NamedTuple):
    """How many new tokens a prompt is asked for, or why it is not sent ("reason: detail")."""

    max_new_tokens: int
    skip: str = ""


def limits_of(config: Config) -> Limits:
    """The limits that the config tells."""
    most, clips = config.sampling.max_new_tokens, config.prompts.over_context is OverContext.clip
    least = min(most, max(LEAST_ANSWER, config.sampling.min_new_tokens))
    return Limits(
        context_length=config.model.context_length,
        max_new_tokens=most,
        least=least if clips else 0,
    )


def narrowed(limits: Limits, info: EngineInfo) -> Limits:
    """These limits and what a server tells of its own; what it does not tell changes nothing."""
    longest = info.max_input_tokens
    told = [info.context_length, longest + BESIDE_THE_LONGEST if longest > 0 else NOT_TOLD]
    return Limits(
        context_length=min([limits.context_length, *(one for one in told if one > 0)]),
        max_new_tokens=limits.max_new_tokens,
        max_input=longest if longest > 0 else NOT_TOLD,
        least=limits.least,
    )


def fit(tokens: int, limits: Limits) -> Fit:
    """Whether a prompt of so many tokens fits. The one place that decides."""
    if tokens <= limits.longest:
        return Fit(limits.max_new_tokens)
    left = limits.context_length - tokens
    taken = limits.max_input == NOT_TOLD or tokens <= limits.max_input
    if limits.least and taken and left >= limits.least:
        return Fit(min(left, limits.max_new_tokens))
    return Fit(
        0,
        f"{OVER}: {tokens:,} prompt tokens, room for {max(0, limits.longest):,} beside "
        f"max_new_tokens={limits.max_new_tokens:,} in a context of {limits.context_length:,}",
    )


def clipped(sampling: SamplingParams, tokens: int, limits: Limits | None) -> SamplingParams:
    """What a prompt is asked with: the run's sampling, or fewer new tokens where only they fit."""
    room = fit(tokens, limits).max_new_tokens if limits is not None else 0
    if not 0 < room < sampling.max_new_tokens:
        return sampling
    return msgspec.structs.replace(sampling, max_new_tokens=room)


def check_stop_on(patterns: Iterable[str]) -> None:
    """Raises ConfigError for one that no finding can match."""
    for pattern in patterns:
        if not any(fnmatchcase(reason, pattern) for reason in REASONS):
            raise ConfigError(
                "There is no such finding.",
                where="prompts.stop_on",
                found=pattern,
                allowed=", ".join(REASONS),
            )


def findings(part: PartSummary) -> Counter[str]:
    """What was found among the prompts of a part, skipped or not, by reason."""
    found = Counter(part.skipped)
    found["duplicate"] = max(found["duplicate"], part.duplicates)
    found["special_token_text"] += part.escaped
    found[OVER] += part.clipped
    return +found


def refuse(summary: PlanSummary, stop_on: Iterable[str]) -> None:
    """Raises MachineError when a finding is one at which the run is to stop."""
    patterns = list(stop_on)
    bad = [
        f"{name}: {number:,} x {reason}"
        for name, part in summary.parts.items()
        for reason, number in findings(part).items()
        if any(fnmatchcase(reason, pattern) for pattern in patterns)
    ]
    if bad:
        raise MachineError(
            "The prompts are not as the config wants them; nothing was sent.",
            where="prompts.stop_on",
            found="; ".join(bad),
            next_step="mend the source; or take the finding out of prompts.stop_on",
        )


def lines(summary: PlanSummary) -> list[str]:
    """A line for each part, and under them the table of prompt lengths."""
    return [*summary.lines(), *histogram({n: one.lengths for n, one in summary.parts.items()})]


def histogram(lengths: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    """A table: how many prompts of each part have fewer tokens than the power of two above."""
    sizes = [size for counts in lengths.values() for size in counts]
    if not sizes:
        return
    low, high = min(sizes), max(sizes)
    step = -(-(high - low + 1) // COLUMNS)
    edges = list(range(high, low - 1, -step))[::-1]
    heads = [f"<{2**edge:,}" for edge in edges]
    first = max(len("prompt tokens"), *(len(name) for name in lengths))
    widths = [max(8, len(head)) for head in heads]
    yield f"{'prompt tokens':<{first}}" + _row(heads, widths)
    for name, counts in lengths.items():
        sums = [sum(n for size, n in counts.items() if e - step < size <= e) for e in edges]
        yield f"{name:<{first}}" + _row([f"{n:,}" if n else "-" for n in sums], widths)


def _row(cells: list[str], widths: list[int]) -> str:
    return "".join(f"{cell:>{width + 1}}" for cell, width in zip(cells, widths, strict=True))
