"""A server that answers, and wrongly: stopped early, with the right reason first; and what a
healthy model does by itself: never stopped."""

import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Outputs, attach, prompt_file

Fake = Callable[..., str]
MOST_STORED, MOST_REQUESTS = 50, 120
LONG = {"min_output": 40, "max_output": 60}
DEMANDS_A_CLOSE = "category.parts.B4.expected.rates.no_close=0.0"


@pytest.fixture
def rows(tmp_path: Path) -> list[str]:
    return ["source=file", f"source.path={prompt_file(tmp_path / 'rows.jsonl', 400)}"]


def requests_of(url: str) -> int:
    with urllib.request.urlopen(f"{url}/fake/stats", timeout=10) as answer:
        return int(json.load(answer)["requests"])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nan_stop", "nan_stop"),
        ("single_id", "single_id"),
        ("padded_ids", "unassigned"),
        ("out_of_vocabulary", "out_of_vocabulary"),
        ("stop_in_middle", "early_stop_id"),
        ("lost_think_close", "no_close"),
        ("clamped_length", "clamped_length"),
        ("wrong_echo", "echo_differs"),
        ("abort_200", "abort"),
        ("other_weights", "weights_changed"),
    ],
)
def test_a_server_poisoned_from_the_start_is_stopped_by_the_canary(
    outputs: Outputs, fake: Fake, rows: list[str], kind: str, reason: str
) -> None:
    # The probe is the first request; it must not be what sees the fault.
    url = fake(faults=[{"kind": kind, "first": 2}], **LONG)
    ended = outputs.run(*attach(url), *rows, "client.concurrency=32", DEMANDS_A_CLOSE)
    assert ended.code == 3, ended.text
    assert f"mainly for {reason}:" in ended.text
    state = outputs.state()
    assert state.status == "stopped_bad_data"
    assert f"mainly for {reason}:" in state.reason.splitlines()[0]
    assert state.counts.ok + state.counts.rejected < MOST_STORED
    assert requests_of(url) < MOST_REQUESTS


@pytest.mark.parametrize(("kind", "reason"), [("nan_stop", "nan_stop"), ("abort_200", "abort")])
def test_a_server_that_turns_bad_is_stopped_by_the_breaker(
    outputs: Outputs, fake: Fake, rows: list[str], kind: str, reason: str
) -> None:
    url = fake(faults=[{"kind": kind, "first": 101}], latency_s=0.02, **LONG)
    ended = outputs.run(*attach(url), *rows, "client.concurrency=8")
    assert ended.code == 3, ended.text
    assert f"The circuit breaker stopped the run, mainly for {reason}:" in ended.text
    assert outputs.state().counts.rejected < MOST_STORED
    assert requests_of(url) - 100 < MOST_REQUESTS
    (log,) = outputs.runs[0].attempts.glob("*/canary.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert 0 < len(lines) <= 8
    assert all(line["reason"] == reason for line in lines)
    assert outputs.tool("verify", "latest").code == 0


def test_a_server_of_ours_that_turns_bad_is_restarted_once_and_the_run_ends_well(
    outputs: Outputs, rows: list[str]
) -> None:
    """The scripted server counts its requests from its own start, so the new one is good again."""
    scenario = json.dumps(
        {**TINY, **LONG, "latency_s": 0.02, "faults": [{"kind": "nan_stop", "first": 301}]}
    )
    command = [sys.executable, "-m", "tests.fake_sglang", "--scenario", scenario]
    ended = outputs.run(
        "server=sglang", f"server.command={as_override(command)}", *rows, "client.concurrency=8"
    )
    assert ended.code == 0, ended.text
    state = outputs.state()
    assert state.launches == 2
    assert state.counts.ok + state.counts.rejected == 400
    assert 0 < state.counts.rejected < MOST_STORED
    assert "circuit breaker" in ended.text


def as_override(command: list[str]) -> str:
    quoted = (f"'{part}'" for part in command)
    return f"[{','.join(quoted)}]"


def test_a_healthy_run_with_many_cut_answers_goes_through(
    outputs: Outputs, fake: Fake, rows: list[str]
) -> None:
    url = fake(over_length_rate=0.4, **LONG)
    ended = outputs.run(*attach(url), *rows, "sampling.max_new_tokens=100")
    assert ended.code == 0, ended.text
    counts = outputs.state().counts
    assert counts.ok == 400
    cut = [s for s in outputs.samples().values() if s.finish == "length"]
    assert 100 < len(cut) < 220


def test_the_breaker_can_be_turned_off(outputs: Outputs, fake: Fake, tmp_path: Path) -> None:
    url = fake(faults=[{"kind": "nan_stop"}], **LONG)
    few = ["source=file", f"source.path={prompt_file(tmp_path / 'few.jsonl', 40)}"]
    ended = outputs.run(*attach(url), *few, "breaker.enabled=false", "canary.count=0")
    assert ended.code == 0, ended.text
    assert outputs.state().counts.rejected == 40
