"""notify.command gets JSON on its standard input, and can do a run no harm."""

import json
import sys
from pathlib import Path

import pytest

from runner.config import Notify
from runner.notify import EVENT_OF_STATUS, Notifier
from runner.records import RunStatus


def notified(tmp_path: Path, program: str, **changes: float) -> list[str]:
    """Send one event to a Python program; what was said about it."""
    said: list[str] = []
    config = Notify(command=[sys.executable, "-c", program], **changes)
    notifier = Notifier(config, tmp_path / "the-run", say=said.append)
    notifier.send("restart", reason="died", deaths=1)
    notifier.close()
    return said


def test_the_command_gets_the_event(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    said = notified(tmp_path, f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())")
    assert said == []
    message = json.loads(out.read_text())
    assert message["event"] == "restart"
    assert message["reason"] == "died"
    assert message["run_id"] == "the-run"
    assert message["run"] == str(tmp_path / "the-run")
    assert message["at"] > 0


def test_a_command_that_fails_is_one_line_in_the_log(tmp_path: Path) -> None:
    (line,) = notified(tmp_path, "import sys; sys.exit('no route')")
    assert "ended with 1" in line
    assert "no route" in line


def test_a_command_that_hangs_is_given_up(tmp_path: Path) -> None:
    (line,) = notified(tmp_path, "import time; time.sleep(60)", timeout_s=0.3)
    assert "TimeoutExpired" in line


def test_a_command_that_reads_nothing_does_no_harm(tmp_path: Path) -> None:
    assert notified(tmp_path, "pass") == []


def test_a_command_that_is_not_there_does_no_harm(tmp_path: Path) -> None:
    said: list[str] = []
    notifier = Notifier(Notify(command=[str(tmp_path / "nothing")]), tmp_path, say=said.append)
    notifier.send("done")
    notifier.close()
    assert "FileNotFoundError" in said[0]


def test_without_a_command_nothing_happens(tmp_path: Path) -> None:
    notifier = Notifier(Notify(), tmp_path, say=pytest.fail)
    notifier.send("done")
    notifier.close()


def test_every_end_of_a_run_has_an_event() -> None:
    assert set(EVENT_OF_STATUS) == set(RunStatus) - {RunStatus.RUNNING}
