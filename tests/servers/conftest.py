"""Real processes for the tests of lifetimes."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from runner.config import Restart, Server, ServerKind

FAKE_SERVER = [sys.executable, str(Path(__file__).with_name("fake_server.py"))]


def gone(pid: int) -> bool:
    """A zombie counts: a container's first process may never collect it."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool], *, what: str, limit_s: float = 20.0) -> None:
    """The limit is only there to end a broken test."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.02)


def read_pid(path: Path) -> int:
    wait_for(path.exists, what=f"{path} to be written")
    return int(path.read_text())


def fake_config(*words: str, **changes: object) -> Server:
    """A config that starts the fake server under SGLang's command line."""
    config = Server(
        name="fake",
        kind=ServerKind.sglang,
        command=[*FAKE_SERVER, *words],
        ready_timeout_s=20.0,
        term_timeout_s=5.0,
        restart=Restart(max_restarts=2, backoff_s=0.01, backoff_max_s=0.02),
    )
    for name, value in changes.items():
        setattr(config, name, value)
    return config


@pytest.fixture
def doomed() -> Iterator[list[int]]:
    """Pids that a failed test may leave: killed at the end, whatever happened."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
