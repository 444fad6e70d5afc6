"""`estimate=true`: what the rest of a run will take, from its plan and a short measured wave.

Tokens to come are the owed samples of each category times its mean length so far (or, for one that
the wave has not met, what its config expects, give or take a half). Speed is that of the wave's
steady window. The interval is meant to hold in nine cases of ten: it joins what the means' scatter,
the wave's own shortness and a tenth of doubt about every short wave make of it. It knows nothing of
a server that will be restarted, or of prompts that get longer later.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from runner.config import Config, Cost
from runner.ledger import owed_by_part, read_judgements
from runner.performance import Performance
from runner.recorder import Recorder
from runner.records import Judgement, Record
from runner.rundir import RunDir

VERDICTS = "online"
WAVE_TURNOVERS = 6
"""Samples of the wave, in times the requests in flight: one to warm up, one to run out."""
LEAST_WAVE = 32
UNMET_DOUBT = 0.5
"""Relative doubt about a length that only the config tells."""
WAVE_DOUBT = 0.1
"""Relative doubt about the speed of any short wave."""
NINE_OF_TEN = 1.645
"""Standard deviations on either side."""


class Range(Record, frozen=True, kw_only=True):
    """A figure and the interval around it."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> "Range":
        return Range(low=self.low * factor, middle=self.middle * factor, high=self.high * factor)


class Estimate(Record, frozen=True, kw_only=True):
    """What is still to come. None: no price, no GPU."""

    samples: int
    output_tokens: Range
    hours: Range
    gpu_hours: Range | None
    cost: Range | None
    currency: str
    disk_bytes: float


class Length(Record, frozen=True, kw_only=True):
    """Output tokens of a category: how many were measured, their mean and their variance."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0


def lengths_of(judgements: Iterable[Judgement]) -> dict[str, Length]:
    """By category."""
    count: Counter[str] = Counter()
    total: Counter[str] = Counter()
    squares: Counter[str] = Counter()
    for one in judgements:
        count[one.category] += 1
        total[one.category] += one.output_tokens
        squares[one.category] += one.output_tokens**2
    found = {}
    for name, n in count.items():
        mean = total[name] / n
        found[name] = Length(count=n, mean=mean, variance=max(0.0, squares[name] / n - mean**2))
    return found


def tokens_to_come(
    owing: Mapping[str, int], lengths: Mapping[str, Length], told: Mapping[str, int | None]
) -> tuple[float, float]:
    """(expected output tokens, their standard deviation) of what is owed by category."""
    known = [length.mean for length in lengths.values()]
    usual = sum(known) / len(known) if known else 0.0
    mean = variance = 0.0
    for name, samples in owing.items():
        length = lengths.get(name, Length())
        if length.count > 1:
            mean += samples * length.mean
            variance += samples**2 * length.variance / length.count + samples * length.variance
        else:
            guess = told.get(name) or length.mean or usual
            mean += samples * guess
            variance += (samples * guess * UNMET_DOUBT) ** 2
    return mean, math.sqrt(variance)


def spread(middle: float, relative: float) -> Range:
    """An interval that is as wide in proportion below as above, so never below 0."""
    factor = math.exp(NINE_OF_TEN * relative)
    return Range(low=middle / factor, middle=middle, high=middle * factor)


def estimate(
    owing: Mapping[str, int],
    lengths: Mapping[str, Length],
    told: Mapping[str, int | None],
    speed: Performance,
    cost: Cost,
    *,
    bytes_per_sample: float,
    most_tokens: float | None = None,
) -> Estimate | None:
    """What the rest takes; None when the wave was too short to tell a speed. `most_tokens` is what
    a budget leaves."""
    if not speed.output_tokens_per_s:
        return None
    tokens, deviation = tokens_to_come(owing, lengths, told)
    relative = deviation / tokens if tokens else 0.0
    answers = max(1.0, (speed.requests_per_s or 0.0) * speed.steady_s)
    if most_tokens is not None and tokens > most_tokens:
        tokens, relative = max(0.0, most_tokens), 0.0
    doubt = math.sqrt(relative**2 + 1 / answers + WAVE_DOUBT**2)
    hours = spread(tokens / speed.output_tokens_per_s / 3600, doubt)
    gpu_hours = hours.times(speed.gpus) if speed.gpus else None
    paid = gpu_hours is not None and cost.gpu_hour is not None
    return Estimate(
        samples=sum(owing.values()),
        output_tokens=spread(tokens, relative),
        hours=hours,
        gpu_hours=gpu_hours,
        cost=gpu_hours.times(cost.gpu_hour) if paid and gpu_hours and cost.gpu_hour else None,
        currency=cost.currency,
        disk_bytes=sum(owing.values()) * bytes_per_sample,
    )


def estimate_rest(
    run: RunDir, config: Config, recorder: Recorder, speed: Performance
) -> Estimate | None:
    """`estimate` for a run, from its files."""
    most = config.client.retry.max_attempts
    retry = config.resume.retry_failed
    parts = owed_by_part(run, max_attempts=most, retry_failed=retry)
    done = recorder.stats.all()
    budget = config.budget.output_tokens
    return estimate(
        {name: part.samples for name, part in parts.items()},
        lengths_of(read_judgements(run, VERDICTS)),
        {name: part.expected.output_tokens for name, part in config.category.parts.items()},
        speed,
        config.cost,
        bytes_per_sample=size_of([run.samples, run.path / "verdicts"]) / max(1, done.samples),
        most_tokens=budget - done.output_tokens if budget is not None else None,
    )


def size_of(folders: Iterable[Path]) -> int:
    """Bytes of all files in some folders."""
    return sum(f.stat().st_size for one in folders for f in one.rglob("*") if f.is_file())


def lines(made: Estimate) -> list[str]:
    """For a person."""
    told = [
        f"still to come: {made.samples:,} samples, {_range(made.output_tokens, ',.0f')} output "
        "tokens",
        f"time: {_time(made.hours)}",
    ]
    if made.gpu_hours is not None:
        told.append(f"GPU hours: {_range(made.gpu_hours, ',.2f')}")
    if made.cost is not None:
        told.append(f"cost: {_range(made.cost, ',.2f')} {made.currency}")
    told.append(f"disk: {made.disk_bytes / 2**20:,.1f} MiB")
    return told


def _time(hours: Range) -> str:
    if hours.middle < 1:
        return f"{_range(hours.times(60), ',.1f')} minutes"
    return f"{_range(hours, ',.1f')} hours"


def _range(value: Range, form: str) -> str:
    return f"{value.middle:{form}} ({value.low:{form}} to {value.high:{form}})"
