"""One line for each job of a sweep, in the sweep's folder: `jobs.jsonl`.

The parent run in MLflow and the exit code of the whole sweep are made from it, also where a
launcher runs the jobs in processes of their own.
"""

from pathlib import Path

from runner.errors import MachineError
from runner.gates import METRICS
from runner.ledger import fold
from runner.rundir import RunDir, append_line
from runner.tracking.sweep import JOBS_NAME, SweepJob


def note_job(
    sweep_dir: Path, number: int, overrides: list[str], exit_code: int, run: RunDir | None
) -> None:
    """Write how one job ended. `run` is None when its run directory was never entered."""
    sweep_dir.mkdir(parents=True, exist_ok=True)
    append_line(sweep_dir / JOBS_NAME, _line(number, overrides, exit_code, run))


def _line(number: int, overrides: list[str], exit_code: int, run: RunDir | None) -> SweepJob:
    try:
        state = run.read() if run is not None else None
    except MachineError:
        state = None
    if run is None or state is None:
        return SweepJob(
            job=number, run_dir="", exit_code=exit_code, status="refused", overrides=overrides
        )
    return SweepJob(
        job=number,
        run_dir=str(run.path),
        exit_code=exit_code,
        status=state.status.value,
        mlflow_run_id=state.mlflow_run_id,
        overrides=overrides,
        metrics=_metrics(run, state.validator_set) | {"tokens_per_s": state.tokens_per_s},
    )


def _metrics(run: RunDir, verdict_set: str) -> dict[str, float | None]:
    whole = fold(run, verdict_set).all()
    values: dict[str, float | None] = {"samples": whole.samples, "output": whole.output_tokens}
    for name, measure in METRICS.items():
        value = measure(whole)
        values[name] = value if value == value else None
    return values
