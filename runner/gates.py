"""Run-level limits: `gates: {truncated: "warn <= 0.15", "B4/rejected": "<= 0.01"}`.

A gate is measured over the current samples; one that cannot be measured (no samples) is not
passed: "not measured" is never good news. A limit that begins with `warn` is told and decides
nothing. What can be measured, for the whole run or for one category as CATEGORY/NAME:

    truncated, rejected, flagged   shares of the samples
    mean_output_tokens
    tool_schema_accuracy           share of tool calls that satisfy a known tool's schema
    answer_accuracy                share of final answers that are the reference
    REASON                         any reason code of a configured validator: share of the samples
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping

from runner.errors import ConfigError
from runner.records import Record, SetFinding
from runner.stats import CategoryStats, Score, Stats

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*(warn\s+)?(<=|>=|<|>)\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*")


def _score(one: CategoryStats, validator: str) -> float:
    return one.scores.get(validator, Score()).mean


METRICS: dict[str, Callable[[CategoryStats], float]] = {
    "truncated": lambda one: one.truncated_share,
    "rejected": lambda one: _share(one.rejected, one),
    "flagged": lambda one: _share(one.flagged, one),
    "mean_output_tokens": lambda one: _share(one.output_tokens, one),
    "tool_schema_accuracy": lambda one: _score(one, "tool_calls"),
    "answer_accuracy": lambda one: _score(one, "answer"),
}
"""What a gate may measure beside the reason codes."""


class Gate(Record, frozen=True, kw_only=True):
    """A parsed gate with what was measured; `passed` is None before it was measured. One that only
    warns never decides."""

    name: str
    limit: str
    measured: float | None = None
    passed: bool | None = None
    warns: bool = False

    @property
    def failed(self) -> bool:
        """Whether the run fails for it."""
        return not self.passed and not self.warns


def _share(part: int, one: CategoryStats) -> float:
    return part / one.samples if one.samples else float("nan")


def check_gates(
    gates: Mapping[str, str], categories: list[str], reasons: Iterable[str] = ()
) -> None:
    """Raise ConfigError for a gate that cannot be read, before anything is started. `reasons` are
    the codes of the configured validators."""
    known = {*METRICS, *reasons}
    for name, limit in gates.items():
        category, _, metric = name.rpartition("/")
        if metric not in known or (category and category not in categories):
            raise ConfigError(
                "This gate measures nothing that there is.",
                where=f"gates.{name}",
                found=name,
                allowed=f"{', '.join(METRICS)}, or a reason code ({', '.join(sorted(reasons))}); "
                f"for one category: {categories[0]}/truncated",
            )
        form = _FORM.fullmatch(limit)
        if form is None or not _is_number(form[3]):
            raise ConfigError(
                "A gate's limit is a comparison and a number.",
                where=f"gates.{name}",
                found=limit,
                allowed='"<= 0.15", ">= 0.95", "< 10", "> 10", "warn <= 0.15" (told, not decided)',
            )


def check_rates(rates: Mapping[str, Mapping[str, float]], reasons: Iterable[str]) -> None:
    """Raise ConfigError for an expected rate, by part, of a reason that no validator gives."""
    known = sorted(reasons)
    for part, wanted in rates.items():
        for reason, rate in wanted.items():
            if reason not in known or not 0 <= rate <= 1:
                raise ConfigError(
                    "An expected rate is a share of samples with a validator's reason.",
                    where=f"category.parts.{part}.expected.rates.{reason}",
                    found=f"{rate:g}" if reason in known else reason,
                    allowed="0 to 1" if reason in known else ", ".join(known),
                )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def measure(
    gates: Mapping[str, str], stats: Stats, findings: Iterable[SetFinding] = ()
) -> list[Gate]:
    """Every gate with its measured value."""
    by_set = list(findings)
    return [_measure(name, limit, stats, by_set) for name, limit in gates.items()]


def _measure(name: str, limit: str, stats: Stats, findings: list[SetFinding]) -> Gate:
    category, _, metric = name.rpartition("/")
    one = stats.categories.get(category, CategoryStats()) if category else stats.all()
    form = _FORM.fullmatch(limit)
    if metric in METRICS:
        value = METRICS[metric](one)
    else:
        value = _share(_having(metric, category, one, findings), one)
    passed = form is not None and _COMPARE[form[2]](value, float(form[3]))
    return Gate(
        name=name,
        limit=limit,
        measured=value if value == value else None,
        passed=passed,
        warns=form is not None and bool(form[1]),
    )


def _having(reason: str, category: str, one: CategoryStats, findings: list[SetFinding]) -> int:
    """Samples with this reason, by a check on the sample or on the set."""
    alone = sum(n for (_, found, _), n in one.reasons.items() if found == reason)
    return alone + sum(
        f.samples for f in findings if f.reason == reason and category in ("", f.category)
    )
