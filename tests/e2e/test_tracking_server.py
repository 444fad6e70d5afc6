"""The MLflow server hangs, then dies, while a run goes on: real processes on every side."""

from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.batching import Lengths, Machine
from benchmarks.serving_process import Remote, simulated
from benchmarks.simulated_server import Simulation
from runner.rundir import RunDir
from runner.tracking import read_from
from runner.tracking import state as states
from runner.tracking.events import Metrics
from tests.e2e.conftest import Outputs, attach, prompt_file, wait_for
from tests.tracking.conftest import client_of, points_of
from tests.tracking.mlflow_server import MlflowServer

pytestmark = pytest.mark.timeout(600)
SIMULATION = Simulation(
    machine=Machine(slots=16, step_s=0.012),
    lengths={"B4": Lengths(median=25, sigma=0.6, most=200)},
)
WHILE_FROZEN = 80
"""Answers that must come while MLflow hangs."""


def test_the_samples_are_the_same_nothing_waits_and_sync_completes_it(
    outputs: Outputs, tmp_path: Path
) -> None:
    rows = prompt_file(tmp_path / "rows.jsonl", 400)
    job = ["source=file", f"source.path={rows}", "sampling=greedy", "client.concurrency=20"]
    quiet = Outputs(tmp_path / "quiet")
    with simulated(SIMULATION) as server:
        assert quiet.run(*attach(server.url), *job).code == 0

    (tmp_path / "mlflow").mkdir()
    with MlflowServer(tmp_path / "mlflow") as mlflow, simulated(SIMULATION) as server:
        tracked = [f"tracking.uri={mlflow.uri}", "tracking.interval_s=1"]
        process = outputs.start(*attach(server.url), *job, *tracked, tracking="mlflow")
        wait_for(lambda: told_of(outputs) and server.measured().answered > 20)
        mlflow.freeze()
        goes_on(server)
        mlflow.kill()
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0, text
        assert text.count("is not reachable") == 1
        kept = {name: sample.output_ids for name, sample in outputs.samples().items()}
        assert kept == {name: s.output_ids for name, s in quiet.samples().items()}

        mlflow.start()
        assert outputs.tool("sync", "latest").code == 0
        is_complete(outputs.runs[0], mlflow.uri)


def told_of(outputs: Outputs) -> bool:
    """Whether MLflow knows the run and has some of it."""
    state = states.load(outputs.runs[0].path) if outputs.runs else None
    return state is not None and bool(state.mlflow_run_id) and state.sent_offset > 0


def goes_on(server: Remote) -> None:
    begin = server.measured().answered
    wait_for(lambda: server.measured().answered >= begin + WHILE_FROZEN)


def is_complete(run: RunDir, uri: str) -> None:
    """MLflow has every point, the end and the report."""
    written: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for _, _, event in read_from(run.metrics):
        for key, value in event.values.items() if isinstance(event, Metrics) else ():
            written[key].append((event.step, float(value)))
    state = states.load(run.path)
    assert state is not None
    client = client_of(uri)
    stored = client.get_run(state.mlflow_run_id)
    assert stored.info.status == "FINISHED"
    assert set(stored.data.metrics) == set(written)
    for key, points in written.items():
        assert set(points_of(uri, state.mlflow_run_id, key)) == set(points), key
    names = {item.path for item in client.list_artifacts(state.mlflow_run_id, "report")}
    assert "report/index.html" in names
