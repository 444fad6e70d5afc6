"""A server that is not below us (a container) is ended by its stop_command, however we end."""

import asyncio
import sys
from pathlib import Path

from runner.servers.base import ModelFacts, open_server
from runner.servers.logs import LogLife
from tests.servers.conftest import fake_config, wait_for

FACTS = ModelFacts(model_path="org/model", context_length=64)


def config_of(marker: Path) -> object:
    program = f"open({str(marker)!r}, 'a').write('stopped ')"
    return fake_config(stop_command=[sys.executable, "-c", program])


def test_stop_runs_the_stop_command_once(tmp_path: Path) -> None:
    marker = tmp_path / "stopped"

    async def run() -> None:
        server = open_server(config_of(marker), FACTS, launches_dir=tmp_path / "launches")
        async with server:
            assert not marker.exists()
        await server.stop()

    asyncio.run(run())
    assert marker.read_text() == "stopped "


def test_a_death_runs_it_too(tmp_path: Path) -> None:
    marker = tmp_path / "stopped"

    async def run() -> None:
        server = open_server(config_of(marker), FACTS, launches_dir=tmp_path / "launches")
        async with server:
            server.process.pid  # noqa: B018 - it runs
            import os
            import signal

            os.kill(server.process.pid, signal.SIGKILL)
            await server.died()

    asyncio.run(run())
    wait_for(marker.exists, what="the stop command")


def test_a_stop_command_that_is_not_there_is_a_line_in_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        config = fake_config(stop_command=[str(tmp_path / "nothing")])
        async with open_server(config, FACTS, launches_dir=tmp_path / "launches"):
            pass

    asyncio.run(run())
    assert "stop_command" in (tmp_path / "launches" / "01" / "server.log").read_text()


def test_access_lines_for_our_own_questions_are_no_life(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    life = LogLife(log)
    assert life.bytes() == 0
    log.write_text("Loading weights 1/8\n")
    loaded = life.bytes()
    assert loaded > 0
    with log.open("a") as file:
        file.write('[2026-01-01] INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 503 Service\n')
        file.write('INFO:     127.0.0.1:5 - "GET /v1/loads?x=1 HTTP/1.1" 200 OK\n')
    assert life.bytes() == loaded
    with log.open("a") as file:
        file.write('INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK\n')
    assert life.bytes() > loaded


def test_progress_bars_are_life_and_a_half_written_line_waits(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    life = LogLife(log)
    log.write_text("10%\r20%\r")
    first = life.bytes()
    assert first > 0
    with log.open("a") as file:
        file.write('INFO: "GET /hea')
    assert life.bytes() == first
    with log.open("a") as file:
        file.write('lth HTTP/1.1" 200 OK\n')
    assert life.bytes() == first
