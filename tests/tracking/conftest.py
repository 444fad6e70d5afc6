"""Shared by the tests of tracking: a ready-made MLflow database, a client to look into it."""

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.tracking import open_tracker, quiet
from runner.tracking.database import make_database
from runner.tracking.tracker import MlflowTracker


@pytest.fixture(scope="session")
def template_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initialised database, made once for all workers (its maker locks)."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path = shared / "template" / "mlflow.db"
    make_database(path)
    return path


@pytest.fixture
def uri(template_db: Path, tmp_path: Path) -> str:
    """The address of a fresh database of this test."""
    path = tmp_path / "outputs" / "mlflow.db"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(template_db, path)
    return f"sqlite:///{path}"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / "outputs" / "task" / "run-1"
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tracked(run_dir: Path, uri: str, said: list[str]) -> Callable[..., MlflowTracker]:
    """Opens a tracker of `run_dir`; keyword arguments replace the defaults."""

    def opened(**changes: Any) -> MlflowTracker:
        settings = {"kind": "mlflow", "run_dir": run_dir, "uri": uri, "experiment": "exp"}
        settings |= {"run_name": "a name", "flush_timeout_s": 60, "say": said.append} | changes
        return open_tracker(**settings)

    return opened


def client_of(uri: str) -> Any:
    """An MLflow client, to see what is stored."""
    return quiet.mlflow().MlflowClient(tracking_uri=uri, registry_uri=uri)


def runs_of(uri: str, experiment: str = "exp") -> list[Any]:
    """All runs of an experiment, looked up at the other side."""
    client = client_of(uri)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id])) if found else []


def points_of(uri: str, run_id: str, key: str) -> list[tuple[int, float]]:
    """(step, value) of one series."""
    return [(p.step, p.value) for p in client_of(uri).get_metric_history(run_id, key)]


def tell_all(tracker: MlflowTracker, run_dir: Path) -> None:
    tracker.params({"model.id": "m", "seed": 1, "server.api_key": "hush", "none": None})
    tracker.tags({"host": "h", "overrides": "server.flags.password=hush seed=1"})
    for step in range(5):
        tracker.metrics({"tokens_per_s": step / 2, "odd@1": math.nan, "inf": math.inf}, step)
    (run_dir / "report").mkdir(exist_ok=True)
    (run_dir / "report" / "index.html").write_text("<p>hello")
    tracker.artifact(run_dir / "report" / "index.html", "report")
    tracker.table("samples.json", {"id": ["a", "b"], "text": ["x\ud800", "y"]})
    tracker.dataset(name="run-1", source=str(run_dir), digest="d" * 64)
