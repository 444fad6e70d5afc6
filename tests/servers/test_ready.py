"""Waiting for a server: until it is healthy, dead, or silent for too long."""

import asyncio
import os
from pathlib import Path

import pytest

from runner.errors import ServerError
from runner.servers import ports
from runner.servers.endpoint import Endpoint
from runner.servers.process import ServerProcess
from runner.servers.ready import ServerDied, wait_until_ready
from tests.servers.conftest import FAKE_SERVER


def wait_for_server(tmp_path: Path, *words: str, ready_timeout_s: float = 20.0) -> None:
    async def run() -> None:
        port = ports.free_port("127.0.0.1")
        process = ServerProcess(
            [*FAKE_SERVER, "--port", str(port), *words],
            env=dict(os.environ),
            log_path=tmp_path / "server.log",
        )
        async with process:
            endpoint = Endpoint(url=f"http://127.0.0.1:{port}")
            await wait_until_ready(endpoint, process, ready_timeout_s=ready_timeout_s)
            assert process.alive()

    asyncio.run(run())


def test_a_healthy_server_is_ready(tmp_path: Path) -> None:
    wait_for_server(tmp_path)


def test_one_that_says_503_is_waited_for(tmp_path: Path) -> None:
    wait_for_server(tmp_path, "--healthy-after", "0.5")


def test_a_log_that_advances_is_life(tmp_path: Path) -> None:
    """Longer than the time-out until it is healthy, but never silent for as long."""
    wait_for_server(tmp_path, "--healthy-after", "4.5", "--chatter", ready_timeout_s=3.0)


def test_one_that_is_silent_and_never_healthy_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="has not advanced for 1 s") as caught:
        wait_for_server(tmp_path, "--healthy-after", "600", "--say", "hm", ready_timeout_s=1.0)
    assert not isinstance(caught.value, ServerDied)
    assert "hm" in caught.value.found
    assert "server.ready_timeout_s" in caught.value.next_step


def test_death_is_told_with_last_words_and_the_likely_cause(tmp_path: Path) -> None:
    words = "RuntimeError: CUDA out of memory"
    with pytest.raises(ServerDied, match="died while starting") as caught:
        wait_for_server(tmp_path, "--die", words, ready_timeout_s=600.0)
    death = caught.value
    assert death.cause == "out_of_memory"
    assert "exit code 3" in death.found
    assert words in death.found
    assert "mem_fraction_static" in death.next_step
    assert str(tmp_path) in death.where
    assert death.exit_code == 1


def test_an_unknown_death_shows_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(ServerDied) as caught:
        wait_for_server(tmp_path, "--die", "the tea is cold")
    assert caught.value.cause == ""
    assert caught.value.reason == "exit code 3; the tea is cold"
