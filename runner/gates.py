"""Run-level limits: `gates: {truncated: "<= 0.15", "B4/rejected": "<= 0.01"}`.

A gate is measured over the current samples; one that cannot be measured (no samples) is not
passed: "not measured" is never good news.
"""

import operator
import re
from collections.abc import Callable, Mapping

from runner.errors import ConfigError
from runner.records import Record
from runner.stats import CategoryStats, Stats

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*(<=|>=|<|>)\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*")
METRICS: dict[str, Callable[[CategoryStats], float]] = {
    "truncated": lambda one: one.truncated_share,
    "rejected": lambda one: _share(one.rejected, one),
    "flagged": lambda one: _share(one.flagged, one),
    "mean_output_tokens": lambda one: _share(one.output_tokens, one),
}
"""What a gate may measure, for the whole run or for one category as CATEGORY/METRIC."""


class Gate(Record, frozen=True, kw_only=True):
    """A parsed gate with what was measured; `passed` is None before it was measured."""

    name: str
    limit: str
    measured: float | None = None
    passed: bool | None = None


def _share(part: int, one: CategoryStats) -> float:
    return part / one.samples if one.samples else float("nan")


def check_gates(gates: Mapping[str, str], categories: list[str]) -> None:
    """Raise ConfigError for a gate that cannot be read, before anything is started."""
    for name, limit in gates.items():
        category, _, metric = name.rpartition("/")
        if metric not in METRICS or (category and category not in categories):
            raise ConfigError(
                "This gate measures nothing that there is.",
                where=f"gates.{name}",
                found=name,
                allowed=f"{', '.join(METRICS)}; for one category: {categories[0]}/truncated",
            )
        if not _FORM.fullmatch(limit):
            raise ConfigError(
                "A gate's limit is a comparison and a number.",
                where=f"gates.{name}",
                found=limit,
                allowed='"<= 0.15", ">= 0.95", "< 10", "> 10"',
            )


def measure(gates: Mapping[str, str], stats: Stats) -> list[Gate]:
    """Every gate with its measured value."""
    return [_measure(name, limit, stats) for name, limit in gates.items()]


def _measure(name: str, limit: str, stats: Stats) -> Gate:
    category, _, metric = name.rpartition("/")
    one = stats.categories.get(category, CategoryStats()) if category else stats.all()
    form = _FORM.fullmatch(limit)
    value = METRICS[metric](one)
    passed = form is not None and _COMPARE[form[1]](value, float(form[2]))
    return Gate(name=name, limit=limit, measured=value if value == value else None, passed=passed)
