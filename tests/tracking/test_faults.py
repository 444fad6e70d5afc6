"""Tracking never harms: the other side is down, hangs, answers 500 or nonsense.

Durations are compared with what waiting would cost (a hanging request takes its 10 s time-out),
never with a number of milliseconds.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.errors import MachineError
from runner.records import RunStatus
from runner.tracking import sync, syncing
from runner.tracking.journal import FILE_NAME
from runner.tracking.tracker import MlflowTracker
from tests.tracking.conftest import points_of, runs_of
from tests.tracking.faults import FaultServer

Opened = Callable[..., MlflowTracker]

FAULTS = ["down", "500", "hang", "html"]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "PAUSE_S", 0.01)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_goes_on_and_sync_completes_it(
    tracked: Opened, run_dir: Path, uri: str, said: list[str], fault: str
) -> None:
    heard = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        heard.set()

    with FaultServer(fault) as server:
        with tracked(uri=server.uri, flush_timeout_s=1, say=say) as tracker:
            tracker.params({"seed": 1})
            assert heard.wait(60)
            for step in range(50):
                tracker.metrics({"a": float(step)}, step)
            tracker.finish(RunStatus.DONE)
        assert tracker.mlflow_run_id == ""
    assert len(said) == 1
    assert f"{server.uri} is not reachable" in said[0]
    assert f"python -m runner.runs sync {run_dir}" in said[0]
    assert sync(run_dir, uri=uri, say=said.append).sent_events == 53
    (run,) = runs_of(uri)
    assert run.info.status == "FINISHED"
    assert len(points_of(uri, run.info.run_id, "a")) == 50
    assert len(said) == 1


def test_the_end_waits_no_longer_than_it_may(
    tracked: Opened, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    joined: list[float | None] = []
    real = threading.Thread.join

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "tracking-sink":
            joined.append(timeout)
        real(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    with FaultServer("hang") as server:
        with tracked(uri=server.uri, flush_timeout_s=0.5) as tracker:
            tracker.finish(RunStatus.DONE)
        assert joined == [0.5]
    assert len(said) == 1
    assert "not everything was sent within 0.5 s" in said[0]


def test_no_call_waits_for_a_hanging_server(
    tracked: Opened, run_dir: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    with FaultServer("hang") as server:
        with tracked(uri=server.uri, flush_timeout_s=0) as tracker:
            for step in range(10_000):
                tracker.metrics({"a": 1.0}, step)
            waiting = server.requests <= 1  # all calls returned while the first one hung
            tracker.finish(RunStatus.DONE)
        assert waiting
    assert (run_dir / FILE_NAME).read_bytes().count(b"\n") == 10_002


def test_sync_tells_that_nothing_answers(tracked: Opened, run_dir: Path) -> None:
    with tracked(kind="none") as tracker:
        tracker.finish(RunStatus.DONE)
    with (
        FaultServer("500") as server,
        pytest.raises(MachineError, match=r"does not answer(.|\n)*nothing is lost"),
    ):
        sync(run_dir, uri=server.uri, say=pytest.fail)


def test_a_password_is_not_told_with_the_trouble(
    tracked: Opened, run_dir: Path, said: list[str]
) -> None:
    with FaultServer("500") as server:
        address = server.uri.replace("//", "//me:hush@")
        with tracked(uri=address, flush_timeout_s=30) as tracker:
            tracker.finish(RunStatus.DONE)
    assert len(said) == 1
    assert "hush" not in said[0]
    assert all(b"hush" not in path.read_bytes() for path in run_dir.iterdir())


def test_a_full_disk_costs_the_event_and_not_the_run(
    tracked: Opened, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with tracked(kind="none") as tracker:
        monkeypatch.setattr("runner.tracking.journal.write_all", full)
        tracker.metrics({"a": 1.0}, 1)
        tracker.metrics({"a": 2.0}, 2)
        monkeypatch.undo()
        tracker.finish(RunStatus.DONE)
    assert len(said) == 1
    assert "No space left" in said[0]


def test_a_broken_mlflow_is_told_and_harms_nothing(
    tracked: Opened, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ImportError("libsomething.so is missing")

    monkeypatch.setattr("runner.tracking.quiet.mlflow", broken)
    with tracked() as tracker:
        tracker.finish(RunStatus.DONE)
    assert len(said) == 1
    assert "libsomething.so is missing" in said[0]
