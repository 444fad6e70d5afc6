"""The parent of a sweep in MLflow: one run above the runs of all jobs, with what compares them.

The sweep's directory holds `jobs.jsonl`, one line for each job that ended, written by the runner:

    {"job": 0, "run_dir": "...", "exit_code": 0, "status": "done", "mlflow_run_id": "...",
     "overrides": ["category=B1"], "metrics": {"ok": 20}}

and `mlflow_parent.json`, written here: the parent's id and where it lies (the shape of a run's
`tracking.json`). The same sweep started again goes on in the same parent. Nothing here raises for
MLflow's sake: a sweep without its parent is a sweep.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from runner.records import Record, RunStatus
from runner.tracking import state as states
from runner.tracking.address import compare_url
from runner.tracking.events import Metrics, Status, Table, cell, number, storable
from runner.tracking.figure import bars
from runner.tracking.masking import mask_text, mask_uri
from runner.tracking.state import Target, TrackingState
from runner.tracking.store import GoneError, MlflowStore, RefusedError, UnreachableError

JOBS_NAME = "jobs.jsonl"
PARENT_NAME = "mlflow_parent.json"
ADVICE_NAME = "advice.txt"
TABLE_NAME = "comparison.json"
FIGURE_NAME = "comparison.svg"

PARENT_ENV = "RAWTOK_SWEEP_PARENT_RUN_ID"
"""How the jobs learn their parent, also in the processes that a launcher starts."""
SWEEP_DIR_ENV = "RAWTOK_SWEEP_DIR"
"""Where this process's sweep keeps its jobs.jsonl."""
OVERRIDES_ENV = "RAWTOK_SWEEP_OVERRIDES"
"""The sweep's own overrides, one a line."""

Say = Callable[[str], None]


class SweepJob(Record, frozen=True, kw_only=True):
    """A line of `jobs.jsonl`."""

    job: int
    run_dir: str
    exit_code: int
    status: str
    reason: str = ""
    """Why it did not end well, "" when it did."""
    mlflow_run_id: str = ""
    overrides: list[str] = msgspec.field(default_factory=list)
    metrics: dict[str, float | None] = msgspec.field(default_factory=dict)


def name_in_sweep(overrides: Sequence[str], *, otherwise: str) -> str:
    """What tells a job of this sweep from the others: its overrides that the sweep as a whole does
    not have, since there they are lists or come from the sweeper."""
    shared = os.environ.get(OVERRIDES_ENV, "").splitlines()
    own = [text for text in overrides if text not in shared]
    return mask_text(" ".join(own)) if shared and own else otherwise


def sweep_key(overrides: Sequence[str], *, outputs: str) -> str:
    """What makes two sweeps the same one: where they write and what was asked for."""
    text = "\n".join([outputs, *sorted(overrides)])
    return "sweep-" + sha256(text.encode()).hexdigest()[:32]


def open_parent(sweep_dir: Path, target: Target, *, key: str, say: Say) -> str:
    """The id of the sweep's parent run, found or made; "" when MLflow can't be had, which is said.

    A local database is made here, before any job starts.
    """
    sweep_dir.mkdir(parents=True, exist_ok=True)
    state = TrackingState(
        uri=mask_uri(target.uri), experiment=target.experiment, run_name=target.run_name, key=key
    )
    try:
        store = MlflowStore(target.uri)
        try:
            state = store.open_run(_stored(sweep_dir, state))
        except GoneError:
            state = store.open_run(state)
        store.status(state.mlflow_run_id, Status(at=time.time(), status=RunStatus.RUNNING))
    except (UnreachableError, RefusedError, OSError) as error:
        say(
            f"tracking: {mask_uri(target.uri)} is not reachable ({error}); the sweep goes on "
            "without a parent run"
        )
        return ""
    states.save(sweep_dir, state, name=PARENT_NAME)
    return state.mlflow_run_id


def close_parent(sweep_dir: Path, *, uri: str, say: Say) -> None:
    """Ends the parent: counts, summary metrics, the comparison, and its status."""
    state = states.load(sweep_dir, name=PARENT_NAME)
    if state is None:
        return
    jobs = read_jobs(sweep_dir)
    try:
        store = MlflowStore(uri)
        state = store.open_run(state)
        run_id, now = state.mlflow_run_id, time.time()
        tags = {"jobs": str(len(jobs)), "jobs_failed": str(failed(jobs))}
        store.tags(run_id, tags | _advice(sweep_dir))
        store.metrics(run_id, [Metrics(at=now, step=0, values=summary(jobs))])
        if jobs:
            store.table(run_id, Table(at=now, name=TABLE_NAME, columns=comparison(jobs)))
            store.text(run_id, bars(figure_series(jobs)), name=FIGURE_NAME)
        store.status(run_id, Status(at=now, status=outcome(jobs)))
    except (UnreachableError, RefusedError, GoneError, OSError) as error:
        say(f"tracking: the sweep's parent run could not be ended ({error})")
        return
    if sum(1 for job in jobs if job.mlflow_run_id) > 1:
        say(_where_to_compare(state, jobs, uri=uri))


def _advice(sweep_dir: Path) -> dict[str, str]:
    """What a search (runner.tuning) says of its trials, as a tag; {} for any other sweep."""
    path = sweep_dir / ADVICE_NAME
    return {"advice": storable(path.read_text().strip())} if path.is_file() else {}


def _stored(sweep_dir: Path, fresh: TrackingState) -> TrackingState:
    old = states.load(sweep_dir, name=PARENT_NAME)
    return old if old is not None and old.uri == fresh.uri else fresh


def read_jobs(sweep_dir: Path) -> list[SweepJob]:
    """The jobs that ended, by number, the last line of each; damaged lines are passed over."""
    path = sweep_dir / JOBS_NAME
    jobs: dict[int, SweepJob] = {}
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            job = msgspec.json.decode(line, type=SweepJob)
        except msgspec.DecodeError:
            continue  # torn by a kill: that job did not end
        jobs[job.job] = job
    return [jobs[number_] for number_ in sorted(jobs)]


def failed(jobs: Sequence[SweepJob]) -> int:
    """How many jobs did not end well."""
    return sum(job.exit_code != 0 for job in jobs)


def outcome(jobs: Sequence[SweepJob]) -> RunStatus:
    """The sweep's status: interrupted before failed before done; no job at all is failed."""
    if any(job.exit_code == 130 for job in jobs):
        return RunStatus.INTERRUPTED
    return RunStatus.DONE if jobs and not failed(jobs) else RunStatus.FAILED


def differing(jobs: Sequence[SweepJob]) -> list[str]:
    """For each job the overrides that not all jobs share: its name in the comparison."""
    shared = set.intersection(*(set(job.overrides) for job in jobs)) if jobs else set()
    names = [" ".join(text for text in job.overrides if text not in shared) for job in jobs]
    return [
        mask_text(storable(text)) or f"job {job.job}" for text, job in zip(names, jobs, strict=True)
    ]


def metric_keys(jobs: Sequence[SweepJob]) -> list[str]:
    """All metric keys of the jobs, in the order in which they first come."""
    return list(dict.fromkeys(key for job in jobs for key in job.metrics))


def comparison(jobs: Sequence[SweepJob]) -> dict[str, list[Any]]:
    """The table: one row a job; a metric that a job has not is empty."""
    columns: dict[str, list[Any]] = {
        "job": [job.job for job in jobs],
        "what differs": differing(jobs),
        "status": [job.status for job in jobs],
        "exit code": [job.exit_code for job in jobs],
        "reason": [storable(job.reason) for job in jobs],
    }
    for key in metric_keys(jobs):
        columns[storable(key)] = [cell(job.metrics.get(key)) for job in jobs]
    columns["run"] = [job.mlflow_run_id for job in jobs]
    return columns


def summary(jobs: Sequence[SweepJob]) -> dict[str, float | str]:
    """The parent's own metrics: counts, and the least and most of each of the jobs' metrics."""
    values: dict[str, float | str] = {"jobs": len(jobs), "jobs_failed": failed(jobs)}
    for key, series in figure_series(jobs).items():
        known = [value for value in series.values() if value is not None]
        if known:
            values[f"min/{key}"] = number(min(known))
            values[f"max/{key}"] = number(max(known))
    return values


def figure_series(jobs: Sequence[SweepJob]) -> Mapping[str, Mapping[str, float | None]]:
    """metric -> job name -> value, for the figure."""
    names = [f"{job.job}: {name}" for job, name in zip(jobs, differing(jobs), strict=True)]
    return {
        key: {name: job.metrics.get(key) for name, job in zip(names, jobs, strict=True)}
        for key in metric_keys(jobs)
    }


def _where_to_compare(state: TrackingState, jobs: Sequence[SweepJob], *, uri: str) -> str:
    ids = [job.mlflow_run_id for job in jobs if job.mlflow_run_id]
    url = compare_url(uri, experiment_id=state.experiment_id, mlflow_run_ids=ids)
    if uri.startswith("http"):
        return f"compare: {url}"
    return f"compare: mlflow server --backend-store-uri {mask_uri(uri)}   then open {url}"
