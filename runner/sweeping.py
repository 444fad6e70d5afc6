"""One line for each job of a sweep, in the sweep's folder: `jobs.jsonl`.

The parent run in MLflow and the exit code of the whole sweep are made from it, also where a
launcher runs the jobs in processes of their own.
"""

import os
from collections.abc import Callable
from pathlib import Path

from runner.errors import MachineError
from runner.gates import METRICS
from runner.ledger import fold
from runner.performance import figures, read_performance
from runner.rundir import RunDir, RunState, append_line
from runner.tracking.sweep import (
    JOBS_NAME,
    SWEEP_DIR_ENV,
    SweepJob,
    differing,
    failed,
    read_jobs,
)


def note_job(
    sweep_dir: Path,
    number: int,
    overrides: list[str],
    exit_code: int,
    run: RunDir | None,
    *,
    error: str = "",
) -> None:
    """Write how one job ended. `run` is None when its run directory was never entered; `error` is
    what it was stopped by, "" when it ended by itself."""
    sweep_dir.mkdir(parents=True, exist_ok=True)
    append_line(sweep_dir / JOBS_NAME, _line(number, overrides, exit_code, run, error))


def _line(
    number: int, overrides: list[str], exit_code: int, run: RunDir | None, error: str
) -> SweepJob:
    try:
        state = run.read() if run is not None else None
    except MachineError:
        state = None
    if run is None or state is None:
        return SweepJob(
            job=number,
            run_dir="",
            exit_code=exit_code,
            status="refused",
            reason=error,
            overrides=overrides,
        )
    return SweepJob(
        job=number,
        run_dir=str(run.path),
        exit_code=exit_code,
        status=state.status.value,
        reason=(error or reason_of(state)) if exit_code else "",
        mlflow_run_id=state.mlflow_run_id,
        overrides=overrides,
        metrics=_metrics(run, state.validator_set)
        | {"tokens_per_s": state.tokens_per_s}
        | _speeds(state),
    )


def reason_of(state: RunState) -> str:
    """Why a run did not end well: its own words, or the gates that it did not pass."""
    if state.reason:
        return state.reason
    gates = ((name, gate) for name, gate in state.gates.items() if isinstance(gate, dict))
    return "; ".join(
        f"gate {name} is {gate.get('measured')}, limit {gate.get('limit')}"
        for name, gate in gates
        if not gate.get("passed") and not gate.get("warns")
    )


def end_sweep(say: Callable[[str], object]) -> list[int]:
    """Tell of the jobs of this process's sweep that did not end well; the exit codes of all jobs.

    [] when it was no sweep. The jobs may have run in other processes, so their file counts.
    """
    sweep_dir = os.environ.pop(SWEEP_DIR_ENV, "")
    jobs = read_jobs(Path(sweep_dir)) if sweep_dir else []
    if failed(jobs):
        say(f"\n{failed(jobs)} of {len(jobs)} jobs of the sweep did not end well:")
    for job, name in zip(jobs, differing(jobs), strict=True):
        if job.exit_code:
            why = job.reason.splitlines()[0] if job.reason else "no reason was left"
            say(f"  job {job.job} ({name}): {job.status}, exit {job.exit_code}: {why}")
    return [job.exit_code for job in jobs]


def _speeds(state: RunState) -> dict[str, float | None]:
    performance = read_performance(state.performance)
    return dict(figures(performance)) if performance is not None else {}


def _metrics(run: RunDir, verdict_set: str) -> dict[str, float | None]:
    whole = fold(run, verdict_set).all()
    values: dict[str, float | None] = {"samples": whole.samples, "output": whole.output_tokens}
    for name, measure in METRICS.items():
        value = measure(whole)
        values[name] = value if value == value else None
    return values
