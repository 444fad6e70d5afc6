"""What is written to a real (pseudo) terminal."""

import os
import pty
import subprocess
import sys

import pytest

from runner.records import RunStatus
from tests.runs.conftest import MIXED


@pytest.fixture
def on_terminal(tmp_path):
    """Run a command with a pseudo terminal as its output; gives what it wrote."""

    def call(*argv, **environment):
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "runner.runs", *argv],
            env=os.environ
            | {"RAWTOK_OUTPUTS": str(tmp_path / "outputs"), "TERM": "xterm", "COLUMNS": "100"}
            | environment,
            stdout=follower,
        )
        os.close(follower)
        written = b""
        try:
            while chunk := os.read(leader, 4096):
                written += chunk
        except OSError:
            pass  # EIO is how Linux tells that the other side was closed
        os.close(leader)
        assert process.wait(timeout=60) == 0
        return written.decode()

    return call


def test_a_terminal_gets_colours_and_lines(make_run, on_terminal):
    make_run(MIXED)
    out = on_terminal("list")
    assert "\x1b[32mdone" in out
    assert "─" in out


def test_no_color_gets_neither(make_run, on_terminal):
    make_run(MIXED)
    out = on_terminal("show", "latest", NO_COLOR="1")
    assert "\x1b" not in out
    assert "─" not in out


def test_watch_draws_a_picture(make_run, on_terminal):
    make_run(MIXED, status=RunStatus.RUNNING, pid=2**22 + 1)
    out = on_terminal("watch", "latest")
    assert "━" in out
    assert "7/8" in out
    assert "was killed" in out
