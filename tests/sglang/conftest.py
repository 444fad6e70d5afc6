"""A real SGLang on the CPU: `make test-sglang` makes its environment.

A start takes half a minute on an idle machine and several minutes on a busy one, so the limits
here only end a broken test.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import Outputs, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = ROOT / ".venv-sglang"
PYTHON = ENVIRONMENT / "bin" / "python"
SMOLLM2 = ENVIRONMENT / "models" / "smollm2"
REAL = ["server=sglang_cpu", f"server.python={PYTHON}"]
"""The overrides of a run that starts it."""
START_S = 900.0


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    assert PYTHON.is_file(), "no environment: python tools/sglang_cpu/install.py"


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    made = Outputs(tmp_path / "outputs")
    yield made
    made.end_all()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for the tests that need no launch of their own, started by
    `python -m runner.serve`: fp32, and a context shorter than the model's."""
    folder = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-m", "runner.serve", *REAL, f"paths.outputs={folder}"]
    flags = ["+server.flags.dtype=float32", "+server.flags.context-length=512"]
    log = (folder / "serve.txt").open("w+")
    process = subprocess.Popen([*command, *flags], cwd=ROOT, stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or attach_line(folder), timeout_s=START_S)
        (url,) = re.findall(r"server.urls=\[(\S+?)\]", attach_line(folder))
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 130
        log.close()
        assert servers_of(process.pid) == []


def attach_line(folder: Path) -> str:
    lines = (folder / "serve.txt").read_text().splitlines()
    return next((line for line in lines if "python -m runner " in line), "")


def below(pid: int) -> list[psutil.Process]:
    """The processes below one of ours; [] when it is gone."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def servers_of(pid: int) -> list[psutil.Process]:
    """SGLang's main processes below a runner: they have its command line."""
    return [p for p in below(pid) if command_line(p)[1:3] == ["-m", "sglang.launch_server"]]


def schedulers_of(pid: int) -> list[psutil.Process]:
    """They rename themselves."""
    return [p for p in below(pid) if "scheduler" in " ".join(command_line(p))]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def launches(outputs: Outputs) -> list[Path]:
    """The folders of all launches of the only run, shared ones included."""
    (run,) = outputs.runs
    return sorted(run.attempts.glob("*/launches/*"))


def read_json(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text()))
