"""A real MLflow server on loopback, directly and through a proxy that fails in the middle."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from runner.records import RunStatus
from runner.tracking import run_url, sync
from runner.tracking import state as states
from runner.tracking.tracker import MlflowTracker
from tests.tracking.conftest import client_of, points_of, runs_of
from tests.tracking.faults import FaultServer
from tests.tracking.mlflow_server import MlflowServer

Opened = Callable[..., MlflowTracker]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running `mlflow server`."""
    with MlflowServer(tmp_path_factory.mktemp("server")) as made:
        yield made.uri


def tell(tracker: MlflowTracker, run_dir: Path) -> None:
    tracker.params({"model.id": "m"})
    tracker.tags({"host": "h"})
    for step in range(10):
        tracker.metrics({"a": float(step), "n": float("nan"), "i": float("inf")}, step)
    (run_dir / "report.html").write_text("<p>hello")
    tracker.artifact(run_dir / "report.html", "report")
    tracker.table("samples.json", {"id": ["x", "y"]})
    tracker.dataset(name="d", source=str(run_dir), digest="d" * 64)


def test_everything_arrives_once_however_often_it_is_told(
    tracked: Opened,
    run_dir: Path,
    server: str,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with tracked(uri=server, experiment="once") as tracker:
        tell(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    state = states.load(run_dir)
    assert state is not None
    states.save(run_dir, msgspec.structs.replace(state, sent_offset=0))
    report = sync(run_dir, say=said.append)
    assert capfd.readouterr() == ("", "")
    (run,) = runs_of(server, "once")
    ids = {"experiment_id": run.info.experiment_id, "mlflow_run_id": run.info.run_id}
    assert report.url == run_url(server, **ids)
    assert (said, run.info.status, run.data.params) == ([], "FINISHED", {"model.id": "m"})
    assert points_of(server, run.info.run_id, "a") == [(s, float(s)) for s in range(10)]
    assert len(points_of(server, run.info.run_id, "n")) == 10
    assert [item.dataset.digest for item in run.inputs.dataset_inputs] == ["d" * 36]
    client = client_of(server)
    names = [item.path for item in client.list_artifacts(run.info.run_id)]
    assert sorted(names) == ["report", "samples.json"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)  # for load_table
    table = client.load_table(run.info.experiment_id, "samples.json", [run.info.run_id])
    assert table.to_dict("list") == {"id": ["x", "y"]}


@pytest.mark.parametrize("fault", ["down", "500", "hang"])
def test_an_outage_in_the_middle_is_made_up_for(
    tracked: Opened,
    run_dir: Path,
    server: str,
    said: list[str],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    name = f"middle-{fault}"
    with (
        FaultServer("pass", upstream=server) as proxy,
        tracked(uri=proxy.uri, experiment=name) as tracker,
    ):
        tracker.metrics({"a": 0.0}, 0)
        wait_until(lambda: [r for r in runs_of(server, name) if "a" in r.data.metrics])
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        proxy.turn(fault)
        tracker.metrics({"a": 1.0}, 1)
        wait_until(lambda: said)
        tracker.metrics({"a": 2.0}, 2)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        proxy.turn("pass")
        tracker.metrics({"a": 3.0}, 3)
        tracker.finish(RunStatus.DONE)
    (run,) = runs_of(server, name)
    assert run.info.status == "FINISHED"
    assert points_of(server, run.info.run_id, "a") == [(s, float(s)) for s in range(4)]
    assert "is not reachable" in said[0]
    assert len(said) == 1


def test_a_broken_artifact_store_does_not_hold_up_the_numbers(
    tracked: Opened, run_dir: Path, server: str, said: list[str]
) -> None:
    with FaultServer("pass", upstream=server) as proxy:
        proxy.fail_paths = "mlflow-artifacts"
        with tracked(uri=proxy.uri, experiment="artifacts") as tracker:
            tell(tracker, run_dir)
            tracker.finish(RunStatus.DONE)
        (run,) = runs_of(server, "artifacts")
        assert run.info.status == "FINISHED"
        assert len(points_of(server, run.info.run_id, "a")) == 10
        proxy.fail_paths = ""
        report = sync(run_dir, say=said.append)
    assert report.refused_events == 0
    names = [item.path for item in client_of(server).list_artifacts(run.info.run_id)]
    assert sorted(names) == ["report", "samples.json"]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
