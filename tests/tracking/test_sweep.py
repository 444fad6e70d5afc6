"""The parent of a sweep: made, told to the jobs, ended whatever happens, found again."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from runner.records import RunStatus
from runner.tracking import sweep
from runner.tracking.figure import bars
from runner.tracking.state import Target
from runner.tracking.sweep import SweepJob, close_parent, open_parent
from tests.tracking.conftest import client_of, runs_of
from tests.tracking.faults import FaultServer

REPOSITORY = Path(__file__).resolve().parents[2]


def job(number: int, **changes: object) -> SweepJob:
    values: dict[str, object] = {"run_dir": "r", "exit_code": 0, "status": "done"}
    return SweepJob(job=number, **(values | changes))  # type: ignore[arg-type]


def hydra_sweep(outputs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.tracking.sweep_app", "-m", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=REPOSITORY,
        env={**os.environ, "OUTPUTS": str(outputs)},
    )


def test_a_sweep_has_a_finished_parent_with_a_comparison(uri: str) -> None:
    outputs = Path(uri.removeprefix("sqlite:///")).parent
    done = hydra_sweep(outputs, "n=1,2")
    assert done.returncode == 0, done.stderr
    (run,) = runs_of(uri)
    assert done.stdout.count(f"parent {run.info.run_id}") == 2
    assert (run.info.status, run.info.run_name) == ("FINISHED", "sweep n=1,2")
    assert (run.data.metrics["jobs"], run.data.metrics["jobs_failed"]) == (2, 0)
    assert (run.data.metrics["min/ok"], run.data.metrics["max/ok"]) == (1, 2)
    names = [item.path for item in client_of(uri).list_artifacts(run.info.run_id)]
    assert sorted(names) == ["comparison.json", "comparison.svg"]
    assert "compare-runs?runs=%5B%22id1%22%2C%22id2%22%5D" in done.stderr
    assert "Traceback" not in done.stderr
    assert "UserWarning" not in done.stderr


def test_a_job_that_raises_leaves_no_open_parent(uri: str) -> None:
    outputs = Path(uri.removeprefix("sqlite:///")).parent
    broken = hydra_sweep(outputs, "n=13")
    assert broken.returncode == 1
    (run,) = runs_of(uri)
    assert run.info.status == "FAILED"
    assert run.data.metrics["jobs"] == 0


def test_without_tracking_nothing_is_made(tmp_path: Path) -> None:
    done = hydra_sweep(tmp_path / "outputs", "n=1", "tracking.kind=none")
    assert done.returncode == 0, done.stderr
    assert "parent none" in done.stdout
    assert not (tmp_path / "outputs" / "mlflow.db").exists()
    assert done.stderr == ""


def test_a_sweep_goes_on_when_mlflow_is_down(tmp_path: Path) -> None:
    with FaultServer("down") as server:
        done = hydra_sweep(tmp_path / "outputs", "n=1", f"tracking.uri={server.uri}")
    assert done.returncode == 0, done.stderr
    assert "parent none" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "the sweep goes on without a parent run" in done.stderr


def target(uri: str) -> Target:
    return Target(uri=uri, experiment="exp", run_name="sweep")


def test_another_directory_of_the_same_sweep_has_the_same_parent(uri: str, tmp_path: Path) -> None:
    ids = [
        open_parent(tmp_path / name, target(uri), key="sweep-1", say=pytest.fail)
        for name in ("first", "second")
    ]
    assert ids[0] == ids[1] != ""


def test_another_sweep_has_another_parent(uri: str, tmp_path: Path) -> None:
    first = open_parent(tmp_path / "1", target(uri), key="sweep-1", say=pytest.fail)
    second = open_parent(tmp_path / "2", target(uri), key="sweep-2", say=pytest.fail)
    assert first != second


def test_a_deleted_parent_is_made_again(uri: str, tmp_path: Path) -> None:
    first = open_parent(tmp_path, target(uri), key="sweep-1", say=pytest.fail)
    client_of(uri).delete_run(first)
    assert open_parent(tmp_path, target(uri), key="sweep-1", say=pytest.fail) not in ("", first)


def test_ending_twice_changes_nothing_but_the_time(
    uri: str, tmp_path: Path, said: list[str]
) -> None:
    run_id = open_parent(tmp_path, target(uri), key="sweep-1", say=pytest.fail)
    (tmp_path / "jobs.jsonl").write_bytes(
        b'{"job":0,"run_dir":"r","exit_code":3,"status":"gate_failed"}\n{"job":1,"ru'
    )
    for _ in range(2):
        close_parent(tmp_path, uri=uri, say=said.append)
    run = client_of(uri).get_run(run_id)
    assert (run.info.status, run.data.tags["jobs"], run.data.tags["jobs_failed"]) == (
        "FAILED",
        "1",
        "1",
    )


def test_no_parent_has_no_end(tmp_path: Path) -> None:
    close_parent(tmp_path, uri="sqlite:////nowhere/x.db", say=pytest.fail)


def test_the_parent_ends_in_silence_of_the_other_side(
    uri: str, tmp_path: Path, said: list[str]
) -> None:
    open_parent(tmp_path, target(uri), key="sweep-1", say=pytest.fail)
    with FaultServer("500") as server:
        close_parent(tmp_path, uri=server.uri, say=said.append)
    assert len(said) == 1
    assert "could not be ended" in said[0]


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ([0, 0], RunStatus.DONE),
        ([0, 1], RunStatus.FAILED),
        ([0, 3], RunStatus.FAILED),
        ([0, 130], RunStatus.INTERRUPTED),
        ([], RunStatus.FAILED),
    ],
)
def test_how_a_sweep_ended(codes: list[int], status: RunStatus) -> None:
    assert sweep.outcome([job(n, exit_code=code) for n, code in enumerate(codes)]) is status


def test_a_job_is_named_by_what_differs() -> None:
    jobs = [
        job(0, overrides=["category=B1", "seed=1", "sampling=greedy"]),
        job(1, overrides=["category=B4", "seed=1", "sampling=greedy"]),
    ]
    assert sweep.differing(jobs) == ["category=B1", "category=B4"]


def test_one_job_alone_has_a_name_too() -> None:
    assert sweep.differing([job(4, overrides=["seed=1"])]) == ["job 4"]


def test_a_secret_override_is_not_in_the_table() -> None:
    jobs = [job(n, overrides=[f"server.flags.api-key=hush{n}"]) for n in range(2)]
    assert sweep.differing(jobs) == ["server.flags.api-key=***"] * 2


def test_a_job_without_a_metric_has_an_empty_cell() -> None:
    table = sweep.comparison([job(0, metrics={"a": 1.0}), job(1, metrics={"b": 2.0})])
    assert (table["a"], table["b"]) == ([1.0, None], [None, 2.0])


def test_the_same_sweep_is_known_by_what_was_asked() -> None:
    keys = {
        sweep.sweep_key(["a=1", "b=2"], outputs="/o"),
        sweep.sweep_key(["b=2", "a=1"], outputs="/o"),
        sweep.sweep_key(["a=1", "b=2"], outputs="/p"),
        sweep.sweep_key(["a=1"], outputs="/o"),
    }
    assert len(keys) == 3
    assert all(re.fullmatch(r"sweep-[0-9a-f]{32}", key) for key in keys)


def test_the_figure_is_well_formed_whatever_it_shows() -> None:
    svg = bars(
        {
            "<script>alert(1)</script>": {'"</text>&': 1.5, "b" * 200: None, "c": float("nan")},
            "zero": {"a": 0.0, "b": -3.0},
            "none": {},
        }
    )
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not root.findall(".//{*}script")
    assert svg.count("not told") == 2


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars({"m": {"a": 1.0, "b": 2.0}})
    widths = [int(text) for text in re.findall(r'width="(\d+)" height="14"', svg)]
    assert widths[1] == 2 * widths[0]
