"""`python -m runner` as a user starts it: a real process, a real run directory."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from runner.ledger import read_samples
from runner.records import Sample
from runner.rundir import RunDir, RunState, find_runs

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = {"vocab_size": 1280, "vocab_assigned": 1255, "stop_id": 1262, "think_close_id": 1264}
"""A scripted server that speaks the bundled model's ids."""


@dataclass
class Outputs:
    """One outputs folder, and the command that works in it."""

    path: Path
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def command(self, *overrides: str, tracking: str = "none") -> list[str]:
        return [
            sys.executable,
            "-m",
            "runner",
            f"paths.outputs={self.path}",
            f"tracking={tracking}",
            *overrides,
        ]

    def run(self, *overrides: str, timeout_s: float = 240, **options: str) -> "Ended":
        return Ended.of(
            subprocess.run(
                self.command(*overrides, **options),
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        )

    def start(self, *overrides: str, **options: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*overrides, **options),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end_all(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def tool(self, *arguments: str) -> "Ended":
        """`python -m runner.runs` on this outputs folder."""
        return Ended.of(
            subprocess.run(
                [sys.executable, "-m", "runner.runs", *arguments],
                cwd=ROOT,
                env={**os.environ, "RAWTOK_OUTPUTS": str(self.path)},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        )

    @property
    def runs(self) -> list[RunDir]:
        return find_runs(self.path)

    def state(self) -> RunState:
        (run,) = self.runs
        return run.read()

    def samples(self) -> dict[str, Sample]:
        """Every current sample of the only run by id; fails on a second one of an id."""
        (run,) = self.runs
        found: dict[str, Sample] = {}
        for sample in read_samples(run):
            assert sample.sample_id not in found
            found[sample.sample_id] = sample
        return found


@dataclass
class Ended:
    """How a command ended. `text` is all that it printed."""

    code: int
    text: str

    @classmethod
    def of(cls, done: "subprocess.CompletedProcess[str]") -> "Ended":
        return cls(done.returncode, done.stdout + done.stderr)


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    made = Outputs(tmp_path / "outputs")
    yield made
    made.end_all()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a scripted server; gives the overrides that attach to it."""
    processes: list[subprocess.Popen[str]] = []

    def start(**scenario: object) -> str:
        text = msgspec.json.encode({**TINY, **scenario}).decode()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fake_sglang", "--port", "0", "--scenario", text],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        return f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        process.terminate()
        process.wait(timeout=20)
        assert process.stdout is not None
        process.stdout.close()


def attach(url: str) -> list[str]:
    """The overrides for a server that somebody else started."""
    return ["server=external", f"server.urls=[{url}]"]


def wait_for(condition: Callable[[], object], *, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def prompt_file(path: Path, rows: int) -> Path:
    """`rows` small prompts as a JSONL file."""
    lines = (
        msgspec.json.encode({"messages": [{"role": "user", "content": f"What is {n} + {n}?"}]})
        for n in range(rows)
    )
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path
