"""Real processes: eight at once on a database that is not there yet, and `kill -9`."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.tracking import sync
from runner.tracking.journal import FILE_NAME
from tests.tracking.child import main as run_child
from tests.tracking.conftest import points_of, runs_of

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def child(run_dir: Path, uri: str, how: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tracking.child", str(run_dir), uri, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_eight_at_once_on_a_fresh_database(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = f"sqlite:///{tmp_path}/outputs/mlflow.db"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.tracking.preload"])
    jobs = [
        context.Process(target=run_child, args=(tmp_path / "outputs" / f"run-{n}", uri, "done"))
        for n in range(8)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(280)
    assert [job.exitcode for job in jobs] == [0] * 8
    assert capfd.readouterr() == ("", "")
    runs = runs_of(uri)
    assert sorted(run.data.params["name"] for run in runs) == [f"run-{n}" for n in range(8)]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {run.info.experiment_id for run in runs} == {"1"}


def test_a_killed_run_is_mended_by_sync(run_dir: Path, uri: str) -> None:
    with child(run_dir, uri, "hang") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    with (run_dir / FILE_NAME).open("ab") as file:
        file.write(b'{"event":"metr')
    report = sync(run_dir, say=lambda text: None)
    (run,) = runs_of(uri)
    assert report.mended
    assert run.info.status == "KILLED"
    assert points_of(uri, run.info.run_id, "a") == [(step, float(step)) for step in range(20)]
    assert not sync(run_dir, say=lambda text: None).mended


def test_a_killed_run_is_mended_by_its_next_attempt(run_dir: Path, uri: str) -> None:
    with child(run_dir, uri, "hang") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, 9)
    with child(run_dir, uri, "done") as process:
        told, _ = process.communicate(timeout=280)
    assert (told, process.returncode) == ("", 0)
    (run,) = runs_of(uri)
    assert run.info.status == "FINISHED"
    assert len(points_of(uri, run.info.run_id, "a")) == 40


def test_a_process_that_can_not_wait_ends_anyway(run_dir: Path, uri: str) -> None:
    with child(run_dir, uri, "many") as process:
        told, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    assert "Traceback" not in told
    sync(run_dir, say=lambda text: None)
    (run,) = runs_of(uri)
    assert run.info.status == "FAILED"
    assert len(points_of(uri, run.info.run_id, "a")) == 20_000
