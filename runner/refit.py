"""A plan brought to the limits that a server tells, which are known only when it is up.

Rows that do not fit there are planned once more, as skipped, and rows that were skipped for a
smaller context and do fit come back: the last line of a sample in plan/ counts. The plan is read
only when its summary says that some row may change.
"""

import msgspec

from runner.ledger import owed, read_plan, sample_keying
from runner.plansummary import OVER, PartSummary, PlanSummary, read_summary, write_summary
from runner.preflight import Limits, fit
from runner.rundir import RunDir
from runner.selection import keep_selection
from runner.shards import ShardWriter


def refit(run: RunDir, limits: Limits, *, max_attempts: int) -> PlanSummary | None:
    """Bring the plan to these limits, under the run's lock; None where nothing had to change. A
    sample that is there stays planned, whatever server made it."""
    summary, before = read_summary(run), read_summary(run)
    if not any(_may_change(part, limits) for part in summary.parts.values()):
        return None
    unfit = _unfit(run, limits, max_attempts)
    for part in summary.parts.values():
        part.forget_lengths()
    with ShardWriter(run.plan, keying=sample_keying) as writer:
        for planned in read_plan(run):
            if not planned.prompt_tokens or (planned.skip and not is_over(planned.skip)):
                continue
            skip = fit(planned.prompt_tokens, limits).skip
            if not planned.skip and planned.sample_id not in unfit:
                skip = ""
            if bool(skip) != bool(planned.skip):
                writer.put(msgspec.json.encode(msgspec.structs.replace(planned, skip=skip)))
            if planned.k == 0:
                _count(summary.part(planned.category), planned.prompt_tokens, skip, limits)
    if summary == before:
        return None
    write_summary(run, summary)
    keep_selection(run)
    return summary


def _unfit(run: RunDir, limits: Limits, max_attempts: int) -> set[str]:
    """The samples that are not there, those that failed among them, and do not fit."""
    every = owed(run, max_attempts=max_attempts, retry_failed=True)
    return {one.sample_id for one in every if fit(one.prompt_tokens, limits).skip}


def is_over(skip: str) -> bool:
    """Whether a row is skipped for its length beside the answer's."""
    return skip.partition(":")[0] == OVER


def _may_change(part: PartSummary, limits: Limits) -> bool:
    longest, shortest = part.longest_tokens, part.over.shortest
    over = fit(longest, limits)
    back = bool(shortest) and not fit(shortest, limits).skip
    return bool(over.skip) or back or (over.max_new_tokens < limits.max_new_tokens)


def _count(part: PartSummary, tokens: int, skip: str, limits: Limits) -> None:
    if skip:
        part.leave_out(tokens, room=limits.longest)
    else:
        part.measure(tokens)
        part.clipped += 0 < fit(tokens, limits).max_new_tokens < limits.max_new_tokens
