"""Run directories as the `runs` tests make them, with what tracking and attempts leave behind."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runner.records import RunStatus
from runner.report import REPORT_NAME, make_report
from runner.rundir import RunDir, replace_file
from runner.tracking import events
from tests.runs.conftest import MIXED, MakeRun, make_run

__all__ = ["MIXED", "make_run"]

CONFIG = "sampling:\n  max_new_tokens: 768\nclient:\n  concurrency: {concurrency}\nnotify: null\n"


def write_attempt(
    run: RunDir, number: int, *, concurrency: int = 8, launches: int = 1, started_at: float = 0.0
) -> Path:
    folder = run.attempt(number)
    config = CONFIG.format(concurrency=concurrency).encode()
    replace_file(folder / "config.yaml", config)
    replace_file(run.config_yaml, config)
    provenance = {"python": "3.11.7", "git": {"commit": f"{number:040x}"}, "command": ["x"]}
    for path in (folder / "provenance.json", run.provenance_json):
        replace_file(path, json.dumps(provenance).encode())
    replace_file(folder / "overrides.txt", b"category=B4\nsampling=greedy")
    replace_file(folder / "log.txt", b"begun\nended\n")
    for launch in range(1, launches + 1):
        told = {"argv": ["sglang", "--tp", "8"], "seed": 7, "started_at": started_at + launch}
        argv = folder / "launches" / f"{launch:02d}" / "argv.json"
        replace_file(argv, json.dumps(told).encode())
        replace_file(argv.with_name("server.log"), b"loading\nready\n")
    return folder


def write_metrics(run: RunDir, *told: events.Event) -> None:
    run.metrics.write_bytes(b"".join(events.encode(event) for event in told))


def begun(at: float, attempt: int = 1) -> list[events.Event]:
    return [
        events.Status(at=at, status=RunStatus.RUNNING),
        events.Tags(at=at, values={"attempt": str(attempt)}),
    ]


def point(at: float, step: int, **values: float) -> events.Metrics:
    return events.Metrics(at=at, step=step, values=dict(values))


Page = Callable[[RunDir], str]


@pytest.fixture
def page() -> Page:
    """Make a run's report and read it."""

    def make(run: RunDir) -> str:
        make_report(run)
        return (run.path / REPORT_NAME).read_text(encoding="utf-8")

    return make


@pytest.fixture
def usual(make_run: MakeRun) -> RunDir:
    """A finished run of two attempts, the second with a restarted server."""
    run = make_run(MIXED, attempts=2, gates={"truncated": _gate(passed=False)})
    now = time.time()
    write_attempt(run, 1, started_at=now)
    write_attempt(run, 2, concurrency=16, launches=2, started_at=now + 1000)
    write_metrics(
        run,
        *begun(now),
        point(now + 5, 50, tokens_per_s=10.0, in_flight=4, done=1),
        point(now + 9, 90, tokens_per_s=12.0, in_flight=4, done=2),
        events.Status(at=now + 10, status=RunStatus.INTERRUPTED),
        *begun(now + 1000, 2),
        point(now + 1004, 200, tokens_per_s=20.0, in_flight=8, done=4, **{"server/running": 8.0}),
        events.Status(at=now + 1010, status=RunStatus.DONE),
    )
    return run


def _gate(*, passed: bool) -> dict[str, object]:
    return {
        "name": "truncated",
        "limit": "<= 0.1",
        "measured": 0.2,
        "passed": passed,
        "warns": False,
    }


def rewrite_state(run: RunDir, **changes: object) -> None:
    run.write(msgspec.structs.replace(run.read(), **changes))
