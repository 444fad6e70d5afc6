"""How a sweep names its jobs, and what it tells of those that did not end well."""

import os
from pathlib import Path

import msgspec
import pytest

from runner.rundir import append_line
from runner.sweeping import end_sweep, note_job, reason_of
from runner.tracking.sweep import (
    JOBS_NAME,
    OVERRIDES_ENV,
    SWEEP_DIR_ENV,
    SweepJob,
    name_in_sweep,
    read_jobs,
)
from tests.runs.conftest import MIXED, MakeRun, make_run, state_of

__all__ = ["make_run"]


def job(number: int, code: int = 0, reason: str = "") -> SweepJob:
    status = {0: "done", 3: "gate_failed"}.get(code, "failed")
    return SweepJob(
        job=number,
        run_dir="r",
        exit_code=code,
        status=status,
        reason=reason,
        overrides=[f"category=B{number}", "sampling=greedy"],
    )


def test_a_job_is_named_by_what_the_sweep_as_a_whole_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(OVERRIDES_ENV, "category=B1,B4\ncategory.count=4")
    assert name_in_sweep(["category=B1", "category.count=4"], otherwise="x") == "category=B1"
    assert name_in_sweep(["category.count=4"], otherwise="x") == "x"


def test_a_run_outside_a_sweep_keeps_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OVERRIDES_ENV, raising=False)
    assert name_in_sweep(["category=B1"], otherwise="the run") == "the run"


def test_the_end_tells_of_each_job_that_did_not_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (job(1), job(2, 3, "gate x is 1, limit <= 0.5"), job(3), job(4, 1, "no disk\n  x")):
        append_line(tmp_path / JOBS_NAME, one)
    monkeypatch.setenv(SWEEP_DIR_ENV, str(tmp_path))
    said: list[str] = []
    assert end_sweep(said.append) == [0, 3, 0, 1]
    assert [line.strip() for line in said] == [
        "2 of 4 jobs of the sweep did not end well:",
        "job 2 (category=B2): gate_failed, exit 3: gate x is 1, limit <= 0.5",
        "job 4 (category=B4): failed, exit 1: no disk",
    ]
    assert SWEEP_DIR_ENV not in os.environ


def test_a_sweep_that_went_well_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_line(tmp_path / JOBS_NAME, job(1))
    monkeypatch.setenv(SWEEP_DIR_ENV, str(tmp_path))
    said: list[str] = []
    assert end_sweep(said.append) == [0]
    assert said == []


def test_without_a_sweep_there_is_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWEEP_DIR_ENV, raising=False)
    assert end_sweep(lambda text: pytest.fail(text)) == []


def test_the_reason_is_the_runs_own_or_the_gates_that_it_failed() -> None:
    gates = {
        "truncated": {"measured": 0.4, "limit": "<= 0.1", "passed": False, "warns": False},
        "rejected": {"measured": 0.0, "limit": "<= 0.1", "passed": True, "warns": False},
        "flagged": {"measured": 0.9, "limit": "<= 0.1", "passed": False, "warns": True},
    }
    state = state_of(MIXED, "r", gates=gates)
    assert reason_of(state) == "gate truncated is 0.4, limit <= 0.1"
    assert reason_of(msgspec.structs.replace(state, reason="killed")) == "killed"


def test_a_refused_job_is_noted_with_its_error(tmp_path: Path) -> None:
    note_job(tmp_path, 0, ["a=1"], 2, None, error="A config value is out of range.")
    (noted,) = read_jobs(tmp_path)
    assert (noted.status, noted.reason) == ("refused", "A config value is out of range.")


def test_a_job_that_ended_well_has_no_reason(tmp_path: Path, make_run: MakeRun) -> None:
    note_job(tmp_path, 0, ["a=1"], 0, make_run(MIXED))
    (noted,) = read_jobs(tmp_path)
    assert (noted.status, noted.reason, noted.metrics["samples"]) == ("done", "", 5)
