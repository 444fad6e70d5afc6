"""A real llama.cpp server with the bundled model, as a process, for the tests that need one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.samples import At

GGUF = Path(__file__).parents[2] / "runner/assets/tiny_reasoner/tiny_reasoner.gguf"

SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.cpuparams.n_threads = 2, 1024, 1
params.api_keys, params.endpoint_slots, params.endpoint_metrics = ["sesame-key"], True, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


class LlamaProcess:
    """The server process; `at` is where it listens. Ends when its input closes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(GGUF)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.at = At(url=self.process.stdout.readline().strip(), api_key="sesame-key")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def llama_process() -> Iterator[LlamaProcess]:
    """A server of one test's own."""
    server = LlamaProcess()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def llama() -> Iterator[At]:
    """A server that the tests share; they leave it as it was."""
    server = LlamaProcess()
    yield server.at
    server.kill()
