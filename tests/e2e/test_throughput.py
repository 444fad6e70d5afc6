"""`auto`, `estimate=true` and a trial, over a real server that batches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.batching import Lengths, Machine
from benchmarks.serving_process import Remote, simulated
from benchmarks.simulated_server import Simulation
from tests.e2e.conftest import Outputs, attach, prompt_file

LENGTHS = Lengths(median=25, sigma=0.6, most=200)
SIMULATION = Simulation(
    machine=Machine(slots=24, step_s=0.008),
    lengths={"B4": LENGTHS},
    load_delay_s=0.3,
    load_noise=0.1,
)
AUTO = ["client.concurrency=auto", "client.auto.interval_s=0.2", "client.auto.first=8"]


@pytest.fixture
def server() -> Iterator[Remote]:
    with simulated(SIMULATION) as remote:
        yield remote


@pytest.fixture
def rows(tmp_path: Path) -> list[str]:
    return ["source=file", f"source.path={prompt_file(tmp_path / 'rows.jsonl', 900)}"]


def test_auto_finds_the_slots_of_a_server_and_says_so(
    outputs: Outputs, server: Remote, rows: list[str]
) -> None:
    ended = outputs.run(*attach(server.url), *rows, *AUTO)
    assert ended.code == 0, ended.text
    (log,) = outputs.runs[0].attempts.glob("*/pacing.jsonl")
    numbers = [json.loads(line)["number"] for line in log.read_text().splitlines()]
    assert 22 <= numbers[-1] <= 48
    assert max(numbers) <= 64
    assert "in flight: " in ended.text
    state = outputs.state()
    assert state.counts.ok + state.counts.rejected == 900
    assert state.performance["in_flight"] > 8
    assert state.performance["first_token"]["p50_s"] > 0
    shown = outputs.tool("show", "latest")
    assert "first token" in shown.text
    assert "requests/s" in shown.text


def test_an_estimate_keeps_what_it_measured_and_the_same_command_goes_on(
    outputs: Outputs, server: Remote, rows: list[str]
) -> None:
    job = [*attach(server.url), *rows, "client.concurrency=28", "cost.gpus=8", "cost.gpu_hour=3"]
    ended = outputs.run(*job, "estimate=true")
    assert ended.code == 0, ended.text
    assert "still to come: 724 samples" in ended.text
    assert "USD" in ended.text
    state = outputs.state()
    assert (state.status, state.counts.pending) == ("interrupted", 724)
    (told,) = outputs.runs[0].attempts.glob("*/estimate.json")
    told_s = json.loads(told.read_text())["hours"]
    before_s = state.generate_s
    assert outputs.run(*job).code == 0
    after = outputs.state()
    assert after.counts.pending == 0
    rest_s = after.generate_s - before_s
    assert told_s["low"] * 3600 * 0.5 < rest_s < told_s["high"] * 3600 * 2


def test_a_trial_ends_after_its_time_is_kept_and_is_not_done_twice(
    outputs: Outputs, server: Remote, rows: list[str]
) -> None:
    job = [*attach(server.url), *rows, "client.concurrency=28", "tuning.trial_s=2"]
    ended = outputs.run(*job, "identity=full", "task_name=t")
    assert ended.code == 0, ended.text
    assert "The trial is over: measured for 2 s" in ended.text
    assert "Best of 1 trials" in ended.text
    state = outputs.state()
    assert state.counts.pending > 0
    again = outputs.run(*job, "identity=full", "task_name=t")
    assert again.code == 0
    assert outputs.state().attempts == state.attempts
