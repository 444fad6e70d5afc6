"""Launches: their folders, ports, keys, deaths and restarts."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runner.config import Restart, Server, ServerKind
from runner.errors import ConfigError, MachineError, ServerError
from runner.servers import ports
from runner.servers.base import KINDS, ModelFacts, open_server
from runner.servers.launched import LaunchedServer, backoff_s, restarts_after
from runner.servers.llamacpp_main import API_KEY_ENV
from runner.servers.ready import ServerDied
from tests.servers.conftest import fake_config, gone

FACTS = ModelFacts(model_path="org/model", context_length=64)


def server_of(tmp_path: Path, config: Server, **settings: Any) -> LaunchedServer:
    settings = {"seed": 7} | settings
    server = open_server(config, FACTS, launches_dir=tmp_path / "launches", **settings)
    assert isinstance(server, LaunchedServer)
    return server


def with_server(
    tmp_path: Path,
    config: Server,
    body: Callable[[LaunchedServer], Awaitable[Any]],
    **settings: Any,
) -> Any:
    async def run() -> Any:
        async with server_of(tmp_path, config, **settings) as server:
            return await body(server)

    return asyncio.run(run())


def pid_of(server: LaunchedServer) -> int:
    assert server.process is not None
    return server.process.pid


async def nothing(server: LaunchedServer) -> None: ...


def test_a_launch_answers_and_leaves_nothing(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> int:
        (endpoint,) = server.endpoints
        assert server.alive()
        assert server.launch == 1
        assert server.kind is ServerKind.sglang
        assert endpoint.api_key == ""
        assert server.log_bytes() == 0
        assert endpoint.url == f"http://{endpoint.name}"
        return pid_of(server)

    assert gone(with_server(tmp_path, fake_config(), body))


def test_what_was_started_is_recorded(tmp_path: Path) -> None:
    config = fake_config("--say", "hello", env={"HF_TOKEN": "hush", "NCCL_DEBUG": "WARN"})
    with_server(tmp_path, config, nothing, first_launch=3)
    folder = tmp_path / "launches" / "03"
    record = json.loads((folder / "argv.json").read_text())
    assert record["argv"][-2:] == ["--random-seed", str(record["seed"])]
    assert record["env"] == {"HF_TOKEN": "***", "NCCL_DEBUG": "WARN"}
    assert record["url"].startswith("http://127.0.0.1:")
    assert (folder / "server.log").read_text() == "hello\n"
    assert sorted(p.name for p in folder.iterdir()) == ["argv.json", "server.log"]


def test_the_environment_of_the_config_reaches_the_server(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    with_server(tmp_path, fake_config("--facts", str(facts), env={"A": "b"}), nothing)
    env = json.loads(facts.read_text())["env"]
    assert env["A"] == "b"
    assert env["PATH"] == os.environ["PATH"]


def test_without_a_seed_one_is_drawn_and_recorded(tmp_path: Path) -> None:
    with_server(tmp_path, fake_config(), nothing, seed=None)
    record = json.loads((tmp_path / "launches" / "01" / "argv.json").read_text())
    assert 0 <= record["seed"] < 2**31


def test_a_restart_is_another_launch_in_another_folder(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> tuple[int, int]:
        before = pid_of(server)
        await server.restart("a test")
        assert server.launch == 2
        assert server.alive()
        return before, pid_of(server)

    before, after = with_server(tmp_path, fake_config(), body)
    assert before != after
    assert gone(before)
    folders = sorted(p.name for p in (tmp_path / "launches").iterdir())
    seeds = {
        json.loads((tmp_path / "launches" / name / "argv.json").read_text())["seed"]
        for name in folders
    }
    assert folders == ["01", "02"]
    assert len(seeds) == 2


def test_a_death_is_told_with_its_reason(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> str:
        watching = asyncio.create_task(server.died())
        await asyncio.sleep(0)
        os.kill(pid_of(server), signal.SIGKILL)
        reason = await watching
        assert not server.alive()
        assert await server.died() == reason
        return reason

    reason = with_server(tmp_path, fake_config(), body)
    assert reason.startswith("killed by SIGKILL; killed from outside")


def test_what_was_said_at_the_start_is_no_reason_for_a_death_later(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> str:
        os.kill(pid_of(server), signal.SIGKILL)
        return await server.died()

    reason = with_server(tmp_path, fake_config("--say", "out of memory, trying less"), body)
    assert "killed from outside" in reason


def test_an_end_that_we_asked_for_is_not_a_death(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> None:
        watching = asyncio.create_task(server.died())
        await asyncio.sleep(0)
        await server.restart("a test")
        assert not watching.done()
        os.kill(pid_of(server), signal.SIGKILL)
        await watching

    with_server(tmp_path, fake_config(), body)


def test_a_server_that_dies_at_every_start_spends_the_budget(tmp_path: Path) -> None:
    flag = tmp_path / "die"

    async def body(server: LaunchedServer) -> None:
        flag.touch()
        with pytest.raises(ServerError, match="restarted 2 times") as caught:
            await server.restart("the first reason")
        assert "exit code 3; out of memory" in caught.value.found
        assert caught.value.allowed == "server.restart.max_restarts=2"
        assert server.last_cause == "out_of_memory"
        assert not server.alive()

    config = fake_config("--die", "out of memory", "--die-if", str(flag))
    with_server(tmp_path, config, body)
    assert len(list((tmp_path / "launches").iterdir())) == 3


def test_a_start_that_fails_once_during_a_restart_is_tried_again(tmp_path: Path) -> None:
    marker = tmp_path / "died"
    marker.touch()

    async def body(server: LaunchedServer) -> None:
        marker.unlink()
        await server.restart("a test")
        assert server.launch == 3
        assert server.restarts == 2

    with_server(tmp_path, fake_config("--die", "bad luck", "--die-once", str(marker)), body)


def test_no_restart_when_none_is_allowed(tmp_path: Path) -> None:
    async def body(server: LaunchedServer) -> None:
        with pytest.raises(ServerError, match="restarted 0 times"):
            await server.restart("a test")

    with_server(tmp_path, fake_config(restart=Restart(max_restarts=0)), body)


@pytest.mark.parametrize(
    ("restarts", "pause_s"), [(1, 2.0), (2, 4.0), (3, 8.0), (8, 256.0), (9, 300.0), (2000, 300.0)]
)
def test_the_pause_doubles_up_to_a_limit(restarts: int, pause_s: float) -> None:
    assert backoff_s(restarts, Restart()) == pause_s


def test_a_long_life_gives_the_budget_back() -> None:
    assert restarts_after(4, lived_s=3599.0) == 4
    assert restarts_after(4, lived_s=3600.0) == 0


def test_a_death_at_the_start_leaves_nothing_and_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match="died while starting"):
        with_server(tmp_path, fake_config("--die", "no weights"), nothing)
    assert len(list((tmp_path / "launches").iterdir())) == 1


def test_a_port_lost_to_somebody_else_is_replaced(tmp_path: Path) -> None:
    config = fake_config("--die", "Address already in use", "--die-once", str(tmp_path / "died"))

    async def body(server: LaunchedServer) -> None:
        assert server.launch == 2
        assert server.restarts == 0

    with_server(tmp_path, config, body)


def test_a_port_that_is_always_lost_ends(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match="Address already in use"):
        with_server(tmp_path, fake_config("--die", "Address already in use"), nothing)
    assert len(list((tmp_path / "launches").iterdir())) == 3


def test_a_given_port_is_used(tmp_path: Path) -> None:
    port = ports.free_port("127.0.0.1")

    async def body(server: LaunchedServer) -> str:
        return server.endpoints[0].url

    assert with_server(tmp_path, fake_config(port=port), body) == f"http://127.0.0.1:{port}"


def test_a_given_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = fake_config(port=taken.getsockname()[1])
        with pytest.raises(MachineError, match="in use"):
            with_server(tmp_path, config, nothing)
    assert not (tmp_path / "launches").exists()


def test_somebody_elses_server_on_our_port_is_not_talked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = tmp_path / "python"
    idle.write_text("#!/bin/sh\nexec sleep 600\n")
    idle.chmod(0o755)

    async def body(other: LaunchedServer) -> None:
        port = int(other.endpoints[0].url.rpartition(":")[2])
        monkeypatch.setattr(ports, "free_port", lambda host: port)
        config = fake_config(command=None, python=str(idle))
        with pytest.raises(ServerError, match="another process answers on port"):
            async with server_of(tmp_path, config, first_launch=2):
                pass

    with_server(tmp_path, fake_config(), body)


def test_a_server_that_others_can_reach_gets_a_key_that_nobody_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(API_KEY_ENV, raising=False)

    async def body(server: LaunchedServer) -> str:
        (endpoint,) = server.endpoints
        assert endpoint.api_key not in repr(endpoint)
        assert endpoint.headers == {"Authorization": f"Bearer {endpoint.api_key}"}
        assert endpoint.url.startswith("http://127.0.0.1:")
        words = Path(f"/proc/{pid_of(server)}/cmdline").read_text()
        assert endpoint.api_key not in words
        await server.restart("the key stays the same")
        assert server.endpoints[0].api_key == endpoint.api_key
        return endpoint.api_key

    key = with_server(tmp_path, fake_config(host="0.0.0.0"), body)
    assert len(key) >= 32
    everything = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(everything) == 4
    assert not any(key in p.read_text() for p in everything)
    log = (tmp_path / "launches" / "01" / "server.log").read_text()
    assert log == 'config 600 {"api-key": "***"}\n'


def test_a_key_in_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY_ENV, "sesame")

    async def body(server: LaunchedServer) -> str:
        return server.endpoints[0].api_key

    assert with_server(tmp_path, fake_config(), body) == "sesame"


def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> int:
        server = server_of(tmp_path, fake_config("--healthy-after", "600"))
        starting = asyncio.create_task(server.__aenter__())
        while server.process is None or not server.process.pid:
            await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        return pid_of(server)

    assert gone(asyncio.run(run()))


def test_start_and_stop_without_a_context_manager(tmp_path: Path) -> None:
    async def run() -> int:
        server = server_of(tmp_path, fake_config())
        await server.stop()
        await server.start()
        pid = pid_of(server)
        await server.stop()
        await server.stop()
        assert not server.alive()
        return pid

    assert gone(asyncio.run(run()))


@pytest.mark.parametrize("kind", [ServerKind.sglang, ServerKind.llamacpp])
def test_a_config_that_cannot_work_is_refused_before_anything_starts(
    kind: ServerKind, tmp_path: Path
) -> None:
    config = fake_config(kind=kind, flags={"port": 80})
    with pytest.raises(ConfigError, match=r"server\.flags\.port"):
        server_of(tmp_path, config)
    assert not (tmp_path / "launches").exists()


def test_every_kind_has_a_class() -> None:
    assert set(KINDS) == set(ServerKind)
