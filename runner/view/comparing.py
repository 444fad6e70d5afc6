"""What differs between runs: their settings, and their results. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runner.gates import METRICS
from runner.stats import CategoryStats, Stats
from runner.view.figures import share

ABSENT = "-"
PARTS = "category.parts."
NO_SHARES = ("mean_output_tokens",)
NOISE = ("paths.", "tracking.", "tags", "notify.")
"""Settings that say nothing of the results."""


class Row(NamedTuple):
    """One line of a comparison: a value for each run."""

    name: str
    values: list[str]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def setting_rows(settings: Sequence[Mapping[str, str]]) -> list[Row]:
    """The keys whose values differ, in the order of their names. A part of the prompts that one of
    the runs has not is one row, not one for each of its keys."""
    short = [_whole_parts(one, settings) for one in settings]
    keys = sorted({key for one in short for key in one if not key.startswith(NOISE)})
    rows = [Row(key, [one.get(key, ABSENT) for one in short]) for key in keys]
    return [row for row in rows if row.differs]


def _whole_parts(one: Mapping[str, str], settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    shared = set.intersection(*(_parts(other) for other in settings))
    short = {key: value for key, value in one.items() if _part(key) in ("", *shared)}
    return short | {f"{PARTS}{name}": "has it" for name in _parts(one) - shared}


def _parts(settings: Mapping[str, str]) -> set[str]:
    return {_part(key) for key in settings} - {""}


def _part(key: str) -> str:
    """B4 of category.parts.B4.count; "" for any other key."""
    return key[len(PARTS) :].partition(".")[0] if key.startswith(PARTS) else ""


def result_rows(
    stats: Sequence[Stats], speeds: Sequence[float | None], statuses: Sequence[str]
) -> list[Row]:
    """The figures of each run, all categories together."""
    wholes = [one.all() for one in stats]
    rows = [
        Row("status", list(statuses)),
        Row("samples", [f"{one.samples:,}" for one in wholes]),
        Row("output tokens", [f"{one.output_tokens:,}" for one in wholes]),
        Row("output tokens/s", [ABSENT if s is None else f"{s:,.0f}" for s in speeds]),
        Row("mean output", [_mean(one) for one in wholes]),
    ]
    for kind in ("reasoning", "answer"):
        medians = [f"{one.lengths[kind].quantile(0.5):,}" for one in wholes]
        p99 = [f"{one.lengths[kind].quantile(0.99):,}" for one in wholes]
        rows += [Row(f"{kind} median", medians), Row(f"{kind} p99", p99)]
    shares = {name: measure for name, measure in METRICS.items() if name not in NO_SHARES}
    return rows + [Row(name, [_share(one(w)) for w in wholes]) for name, one in shares.items()]


def _mean(one: CategoryStats) -> str:
    return f"{one.output_tokens / one.samples:,.0f}" if one.samples else ABSENT


def _share(value: float) -> str:
    return ABSENT if value != value else f"{value:.1%}"


def reason_rows(stats: Sequence[Stats]) -> list[Row]:
    """How often each check's reason came, as a share of a run's samples; rarer ones last."""
    wholes = [one.all() for one in stats]
    keys = {key for one in wholes for key in one.reasons}
    most = {key: max(one.reasons[key] / max(1, one.samples) for one in wholes) for key in keys}
    return [
        Row(
            f"{severity} {validator} {reason}".rstrip(),
            [share(one.reasons[validator, reason, severity], one.samples) for one in wholes],
        )
        for validator, reason, severity in sorted(keys, key=lambda key: (-most[key], key))
    ]


def category_rows(stats: Sequence[Stats]) -> list[Row]:
    """By category: samples, mean output, cut and rejected share."""
    names = sorted({name for one in stats for name in one.categories})
    return [
        Row(name, [_category(one.categories.get(name, CategoryStats())) for one in stats])
        for name in names
    ]


def _category(one: CategoryStats) -> str:
    if not one.samples:
        return ABSENT
    cut, rejected = share(one.finish["length"], one.samples), share(one.rejected, one.samples)
    return f"{one.samples:,} x {_mean(one)} tokens, {cut} cut, {rejected} rejected"
