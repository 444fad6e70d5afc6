"""Signals, SIGKILL, a second process, a server that fails: nothing lost, nothing twice."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runner.rundir import reference_of
from tests.e2e.conftest import Outputs, attach, prompt_file, wait_for

Fake = Callable[..., str]


@pytest.fixture
def job(fake: Fake, tmp_path: Path) -> list[str]:
    """300 prompts on a scripted server that takes a moment for each."""
    url = fake(latency_s=0.05)
    rows = prompt_file(tmp_path / "rows.jsonl", 300)
    return [*attach(url), "source=file", f"source.path={rows}", "client.concurrency=8"]


def test_a_run_killed_several_times_ends_with_every_id_exactly_once(
    outputs: Outputs, job: list[str], tmp_path: Path
) -> None:
    rng = random.Random(7)
    for _ in range(3):
        killed_while_writing(outputs, job, rng.uniform(0.0, 0.8))
    finished = outputs.run(*job)
    assert finished.code == 0, finished.text
    assert "planned 300 = ok 300" in finished.text

    undisturbed = Outputs(tmp_path / "undisturbed")
    assert undisturbed.run(*job).code == 0
    expected = {key: s.output_ids for key, s in undisturbed.samples().items()}
    assert {key: s.output_ids for key, s in outputs.samples().items()} == expected
    assert len(expected) == 300
    assert outputs.tool("verify", "latest", "--full").code == 0


def killed_while_writing(outputs: Outputs, job: list[str], after_s: float) -> None:
    process = outputs.start(*job)
    wait_for(lambda: process.poll() is not None or has_written(outputs))
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def has_written(outputs: Outputs) -> bool:
    return any(
        path.stat().st_size > 0 for run in outputs.runs for path in run.samples.glob("*.part")
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_saves_and_exits_130_and_the_same_command_continues(
    outputs: Outputs, job: list[str], number: int
) -> None:
    process = outputs.start(*job)
    wait_for(lambda: has_written(outputs))
    process.send_signal(number)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    state = outputs.state()
    assert state.status == "interrupted"
    assert state.counts.balanced
    assert 0 < state.counts.ok < 300
    assert not list(outputs.runs[0].samples.glob("*.part")), "an orderly end seals"
    assert len(outputs.samples()) == state.counts.ok

    finished = outputs.run(*job)
    assert finished.code == 0, finished.text
    assert len(outputs.samples()) == 300


@pytest.mark.parametrize("after_s", [0.4, 1.5])
def test_a_signal_before_anything_began_is_one_line_and_130(
    outputs: Outputs, after_s: float
) -> None:
    process = outputs.start("category.count=2")
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "Traceback" not in text


def test_a_second_process_on_the_same_run_is_told_and_changes_nothing(
    outputs: Outputs, fake: Fake, tmp_path: Path
) -> None:
    rows = prompt_file(tmp_path / "rows.jsonl", 100)
    job = [*attach(fake(latency_s=2.0)), "source=file", f"source.path={rows}"]
    process = outputs.start(*job)
    wait_for(lambda: has_written(outputs))
    second = outputs.run(*job)
    assert second.code == 1
    assert "Another process is working on this run" in second.text
    assert str(process.pid) in second.text
    assert f"runs stop {reference_of(outputs.runs[0])}" in second.text
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert outputs.state().attempts == 1


def test_no_server_is_left_when_the_runner_is_killed(outputs: Outputs) -> None:
    process = outputs.start("category=all", "sampling=greedy")
    wait_for(lambda: has_written(outputs))
    family = psutil.Process(process.pid).children(recursive=True)
    assert any("llamacpp" in " ".join(p.cmdline()) for p in family)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    wait_for(lambda: not any(p.is_running() and p.status() != "zombie" for p in family))
    resumed = outputs.run("category=all", "sampling=greedy", "category.count=2")
    assert resumed.code == 0, resumed.text


def test_a_server_whose_every_answer_is_unusable_is_stopped_by_the_canary(
    outputs: Outputs, fake: Fake, tmp_path: Path
) -> None:
    url = fake(faults=[{"kind": "nan_stop", "first": 2, "rate": 1.0}])
    rows = prompt_file(tmp_path / "rows.jsonl", 100)
    ended = outputs.run(*attach(url), "source=file", f"source.path={rows}")
    assert ended.code == 3, ended.text
    assert "nan_stop" in ended.text
    assert outputs.state().status == "stopped_bad_data"
    assert len(outputs.samples()) <= 8


def test_answers_that_can_be_retried_are_and_the_rest_is_recorded(
    outputs: Outputs, fake: Fake, tmp_path: Path
) -> None:
    url = fake(
        faults=[
            {"kind": "abort_200", "rate": 0.1, "first": 2},
            {"kind": "busy", "rate": 0.1, "first": 2},
            {"kind": "truncated_json", "rate": 0.1, "first": 2},
        ]
    )
    rows = prompt_file(tmp_path / "rows.jsonl", 100)
    retry = ["client.retry.backoff_s=0.01", "client.retry.max_attempts=8"]
    ended = outputs.run(*attach(url), "source=file", f"source.path={rows}", *retry)
    assert ended.code == 0, ended.text
    assert "planned 100 = ok 100" in ended.text


def test_a_server_that_is_not_there_is_our_side(outputs: Outputs) -> None:
    ended = outputs.run(*attach("http://127.0.0.1:9"), "server.ready_timeout_s=2")
    assert ended.code == 1, ended.text
    assert "127.0.0.1:9" in ended.text
    assert outputs.state().counts.pending == outputs.state().counts.planned > 0
