"""A search over a server that batches, killed in the middle: what is done is not done again, a
losing trial ends early, one out of memory is a failed point, and the best one is a preset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import tuning
from runner.rundir import RunDir, find_runs
from runner.tuning import Trial, best_of, read_trials
from tests.e2e.conftest import ROOT, wait_for

pytestmark = pytest.mark.timeout(600)
TUNE_PYTHON = ROOT / ".venv-tune" / "bin" / "python"
"""Where the extra `tune` is installed: `make test-tune`."""
FAST, SLOW = 32, 6
FITS, TOO_MUCH = 0.88, 0.97
QUIET = {**os.environ, "SQLALCHEMY_SILENCE_UBER_WARNING": "1"}


def killed_when(command: list[str], outputs: Path, runs: int, log: Path) -> None:
    """Start it and `kill -9` it as soon as that many runs have samples or an end."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=QUIET, stdout=out, stderr=out)
    try:
        wait_for(lambda: sum(map(begun, find_runs(outputs))) >= runs, timeout_s=240)
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


def begun(run: RunDir) -> bool:
    return any(run.samples.glob("*.part")) or run.read().status != "running"


def finished(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=QUIET, capture_output=True, text=True, timeout=400, check=False
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    return text


def settings_of(trial: Trial) -> tuple[float, float]:
    """(in flight, share of memory)."""
    told = dict(text.lstrip("+").split("=", 1) for text in trial.overrides)
    return float(told["client.concurrency"]), float(told["server.flags.mem-fraction-static"])


def preset_is_ready(folder: Path, best: tuple[float, float]) -> None:
    """The printed command composes with the best settings."""
    words = ["--config-dir", str(folder / "best"), "experiment=tuned", "--cfg", "job"]
    composed = yaml.safe_load(finished([sys.executable, "-m", "runner", *words]))
    found = composed["client"]["concurrency"], composed["server"]["flags"]["mem-fraction-static"]
    assert found == best
    assert composed["server"]["kind"] == "sglang"


def test_a_grid_goes_on_after_a_kill_and_leaves_its_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "CONCURRENCY", (FAST, SLOW))
    monkeypatch.setattr(tuning, "MEMORY", (FITS, TOO_MUCH))
    monkeypatch.setattr(tuning, "CHUNKS", (8192,))
    search = tuning.command(tmp_path, grid=True, trials=4, trial_s=8)
    outputs, folder = tmp_path / "outputs", tmp_path / "outputs" / ".tuning" / "tune_grid"
    killed_when(search, outputs, 3, tmp_path / "log")
    before = read_trials(folder)
    assert [settings_of(t) for t in before] == [(FAST, FITS), (FAST, TOO_MUCH)]

    text = finished(search)
    trials = {settings_of(t): t for t in read_trials(folder)}
    assert len(trials) == 4
    best = best_of(list(trials.values()))
    assert best is not None
    assert settings_of(best) == (FAST, FITS)
    for number in (FAST, SLOW):
        failed = trials[number, TOO_MUCH]
        assert failed.tokens_per_s is None
        assert "died while starting" in failed.reason
    attempts = {run.read().run_id: run.read().attempts for run in find_runs(outputs)}
    assert [attempts[t.run_id] for t in before] == [1, 1]
    assert attempts[trials[SLOW, FITS].run_id] == 2
    assert "The trial is over: given up after" in text
    assert trials[SLOW, FITS].steady_s < 8 < best.steady_s
    assert "2 of 4 trials failed" in (folder / "advice.txt").read_text()
    preset_is_ready(folder, (FAST, FITS))
    again = finished(search)
    assert "The trial is over" not in again
    assert "Best of 4 trials" in again


@pytest.mark.tune
def test_a_search_goes_on_after_a_kill_with_other_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TUNE_PYTHON.exists(), "make test-tune installs what this test needs"
    monkeypatch.setattr(tuning, "CONCURRENCY", (FAST, SLOW, 24, 16))
    monkeypatch.setattr(tuning, "MEMORY", (FITS, 0.6, TOO_MUCH))
    search = tuning.command(tmp_path, grid=False, trials=6, trial_s=3, python=str(TUNE_PYTHON))
    outputs, folder = tmp_path / "outputs", tmp_path / "outputs" / ".tuning" / "tune"
    killed_when(search, outputs, 3, tmp_path / "log")
    before = {t.run_id: t for t in read_trials(folder)}
    assert before

    finished(search)
    after = {t.run_id: t for t in read_trials(folder)}
    assert before.items() <= after.items()
    assert len(after) >= len(before) + 2, "the points of the beginning were chosen once more"
    best = best_of(list(after.values()))
    assert best is not None
    assert settings_of(best)[0] != SLOW
    assert all(t.tokens_per_s is None for t in after.values() if settings_of(t)[1] == TOO_MUCH)
    preset_is_ready(folder, settings_of(best))
    stamp = json.dumps([t.at for t in after.values()])
    finished(search)
    assert json.dumps([t.at for t in read_trials(folder)]) == stamp, "all trials were done"
