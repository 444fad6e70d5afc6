"""All that `show` tells of a run, read from its directory alone: the shards count, not run.json.

So it is right for a live run, for one that was killed, and for one that has only a plan.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from runner import ledger
from runner.conclusion import is_concluded, read_findings
from runner.ledger import account, losses, read_request
from runner.plansummary import OverContext, read_summary
from runner.records import Counts, Record, SetFinding
from runner.rundir import RunDir, RunState
from runner.stats import LENGTH_NAMES, CategoryStats, Distribution, Stats
from runner.view.status import choose_set, read_settings, read_state, shown_status


class Quantiles(Record, frozen=True, kw_only=True):
    """A distribution in six figures, in tokens."""

    mean: float
    median: int
    p90: int
    p99: int
    max: int
    total: int


class Reason(Record, frozen=True, kw_only=True):
    """How often one validator found one thing."""

    validator: str
    reason: str
    severity: str
    count: int


class Figures(Record, frozen=True, kw_only=True):
    """One category, or all of them. `cut` are those that ended by length."""

    samples: int
    ok: int
    rejected: int
    prompt_tokens: int
    output_tokens: int
    finish: dict[str, int]
    reasons: list[Reason]
    lengths: dict[str, Quantiles]

    @property
    def cut(self) -> int:
        return self.finish.get("length", 0)


class Facts(Record, frozen=True, kw_only=True):
    """What is known of a run. `state` is None without a run.json; `planned` is false while there
    is no whole plan. `unplanned` samples lie in the shards and the plan does not want them.
    `findings` are those over the whole set, which no single sample carries; `concluded` is false
    while nothing has looked for them."""

    path: str
    run_id: str
    status: str
    state: RunState | None
    verdict_set: str
    planned: bool
    counts: Counts
    balanced: bool
    unplanned: int
    whole: Figures
    categories: dict[str, Figures]
    findings: list[SetFinding]
    concluded: bool
    failures: dict[str, int]
    skips: dict[str, int]
    over_context: dict[str, OverContext]
    """By part, the prompts that leave no room for their answer: how long, and what has room."""

    @property
    def reason(self) -> str:
        return self.state.reason if self.state else "there is no run.json yet"


def verdict_set_of(run: RunDir, asked: str | None = None) -> str:
    """The verdict set that a run is looked at with. Raises ConfigError."""
    return choose_set(run, read_state(run), asked)


def read_facts(run: RunDir, *, verdict_set: str | None = None, stats: Stats | None = None) -> Facts:
    """Read a run; `stats` of the verdict set, if they are known, spare a pass over it.

    Raises:
        MachineError, DamagedShard: the run's files cannot be read.
    """
    state = read_state(run)
    name = choose_set(run, state, verdict_set)
    max_attempts = read_settings(run).client.retry.max_attempts
    accounts = account(run, name, max_attempts=max_attempts)
    stats = fold(run, name) if stats is None else stats
    whole = stats.all()
    lost = losses_of(run, name, max_attempts)
    return Facts(
        path=str(run.path),
        run_id=state.run_id if state else run.path.name,
        status=shown_status(run, state),
        state=state,
        verdict_set=name,
        planned=read_request(run) is not None,
        counts=accounts.counts,
        balanced=accounts.counts.balanced,
        unplanned=accounts.unplanned,
        whole=figures_of(whole),
        categories={key: figures_of(one) for key, one in sorted(stats.categories.items())},
        findings=read_findings(run, name),
        concluded=is_concluded(run, name),
        failures=lost.failed,
        skips=lost.skipped,
        over_context={
            name: part.over for name, part in read_summary(run).parts.items() if part.over.longest
        },
    )


def fold(run: RunDir, verdict_set: str) -> Stats:
    """The statistics of the current samples that one verdict set has judged."""
    return ledger.fold(run, verdict_set)


def figures_of(stats: CategoryStats) -> Figures:
    """The fold's figures as plain data."""
    return Figures(
        samples=stats.samples,
        ok=stats.ok,
        rejected=stats.rejected,
        prompt_tokens=stats.prompt_tokens,
        output_tokens=stats.output_tokens,
        finish=dict(stats.finish.most_common()),
        reasons=_reasons(stats.reasons),
        lengths={name: quantiles_of(stats.lengths[name]) for name in LENGTH_NAMES},
    )


def _reasons(counted: Counter[tuple[str, str, str]]) -> list[Reason]:
    """Most serious first, then the most frequent."""
    rank = {"reject": 0, "error": 1, "flag": 2, "info": 3}
    found = [
        Reason(validator=validator, reason=reason, severity=severity, count=n)
        for (validator, reason, severity), n in counted.items()
    ]
    return sorted(found, key=lambda r: (rank.get(r.severity, 4), -r.count, r.validator, r.reason))


def quantiles_of(lengths: Distribution) -> Quantiles:
    """The six figures of a distribution; zeros where it is empty."""
    return Quantiles(
        mean=lengths.mean if len(lengths) else 0.0,
        median=lengths.quantile(0.5),
        p90=lengths.quantile(0.9),
        p99=lengths.quantile(0.99),
        max=lengths.max,
        total=lengths.total,
    )


class Losses(NamedTuple):
    """Why planned samples are not there, by reason: most frequent first."""

    failed: dict[str, int]
    skipped: dict[str, int]


def losses_of(run: RunDir, verdict_set: str, max_attempts: int) -> Losses:
    """Count the reasons behind `failed` and `skipped` of the accounting line."""
    failed, skipped = losses(run, verdict_set, max_attempts=max_attempts)
    return Losses(_ranked(failed), _ranked(skipped))


def _ranked(counted: Counter[str]) -> dict[str, int]:
    return dict(counted.most_common())


def named(figures: Iterable[tuple[str, int]]) -> str:
    """ "a 3, b 1" """
    return ", ".join(f"{name} {number:,}" for name, number in figures)
