"""The simulated server as a process of its own, for a block of code."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.batching import Job
from benchmarks.simulated_server import Simulation

ROOT = Path(__file__).resolve().parent.parent


class Measured(msgspec.Struct):
    """What the server saw: its makespan is from the first arrival to the last answer."""

    makespan_s: float
    mean_running: float
    retractions: int
    answered: int
    jobs: list[tuple[str, int, int]]

    def arrivals(self) -> list[Job]:
        """Every job, in the order of arrival."""
        return [Job(*job) for job in self.jobs]


class Remote:
    """Where it listens, and what it measured."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def measured(self) -> Measured:
        with urllib.request.urlopen(f"{self.url}/fake/simulation", timeout=60) as answer:
            return msgspec.json.decode(answer.read(), type=Measured)


@contextmanager
def simulated(simulation: Simulation) -> Iterator[Remote]:
    """A fresh server; ended with the block."""
    text = msgspec.json.encode(simulation).decode()
    command = [sys.executable, "-m", "benchmarks.simulated_server", "--simulation", text]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Remote(int(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(timeout=30)
