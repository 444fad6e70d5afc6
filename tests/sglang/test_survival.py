"""A real server killed mid-run, and a runner killed mid-run: every id once, nothing left behind."""

import os
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest

from tests.e2e.conftest import Outputs, wait_for
from tests.sglang.conftest import (
    REAL,
    START_S,
    below,
    gone,
    launches,
    read_json,
    schedulers_of,
    servers_of,
)

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]
JOB = [*REAL, "category=B4", "category.count=24", "category.n=4", "client.concurrency=4"]
OWED = 96
"""Enough that the last answers are still to come when a killed server is back."""


def settled(outputs: Outputs) -> int:
    """Samples that run.json counts; 0 while there is no run."""
    counts = [run.read().counts for run in outputs.runs]
    return sum(c.ok + c.rejected + c.failed for c in counts)


def launched(outputs: Outputs) -> int:
    """Launches of the only run that came up."""
    return outputs.state().launches if outputs.runs else 0


def kill_one(
    outputs: Outputs,
    process: "subprocess.Popen[str]",
    find: Callable[[int], list[psutil.Process]],
    *,
    after: int,
) -> None:
    """SIGKILL what `find` finds once more than `after` samples are settled."""
    wait_for(
        lambda: process.poll() is not None or (settled(outputs) > after and find(process.pid)),
        timeout_s=START_S,
    )
    assert process.poll() is None, "the run ended before its server was killed"
    find(process.pid)[0].kill()


def test_a_killed_server_is_started_again_and_every_id_comes_exactly_once(
    outputs: Outputs,
) -> None:
    process = outputs.start(*JOB)
    kill_one(outputs, process, servers_of, after=0)
    wait_for(lambda: process.poll() is not None or launched(outputs) == 2, timeout_s=START_S)
    kill_one(outputs, process, schedulers_of, after=settled(outputs))
    text, _ = process.communicate(timeout=START_S)
    assert process.returncode == 0, text
    assert len(launches(outputs)) == 3
    assert len(outputs.samples()) == OWED
    assert f"planned {OWED} = ok" in text
    seeds = [read_json(folder / "argv.json")["seed"] for folder in launches(outputs)]
    assert len(set(seeds)) == 3
    assert outputs.tool("verify", "latest", "--full").code == 0


def test_sigterm_saves_and_sigkill_leaves_nothing_and_the_same_command_continues(
    outputs: Outputs,
) -> None:
    process = outputs.start(*JOB, "shutdown.drain_s=5")
    wait_for(lambda: process.poll() is not None or settled(outputs), timeout_s=START_S)
    tree = below(process.pid)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=START_S)
    assert process.returncode == 130, text
    assert gone(tree)
    kept = settled(outputs)
    assert kept

    process = outputs.start(*JOB, "shutdown.drain_s=5")
    wait_for(lambda: process.poll() is not None or settled(outputs) > kept, timeout_s=START_S)
    assert process.poll() is None, "the run ended before it was killed"
    tree = below(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: gone(tree), timeout_s=120)

    finished = outputs.run(*JOB, timeout_s=START_S)
    assert finished.code == 0, finished.text
    assert len(outputs.samples()) == OWED
    assert outputs.state().launches == 3
