"""Deaths of memory make the next start ask for less; other deaths do not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from runner.config import Restart
from runner.errors import ServerError
from runner.servers.base import ModelFacts, open_server
from runner.servers.launched import LaunchedServer
from tests.servers.conftest import fake_config

FACTS = ModelFacts(model_path="org/model", context_length=64)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
LADDER: list[dict[str, Any]] = [{"mem-fraction-static": 0.8}, {"max-running-requests": 8}]


def server_of(tmp_path: Path, *words: str, **changes: Any) -> LaunchedServer:
    config = fake_config(*words, flags={"mem-fraction-static": 0.9}, **changes)
    server = open_server(config, FACTS, launches_dir=tmp_path / "launches", seed=7)
    assert isinstance(server, LaunchedServer)
    return server


def shown(tmp_path: Path, launch: int) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "launches" / f"{launch:02d}" / "argv.json").read_text()))


def policy(ladder: list[dict[str, Any]]) -> Restart:
    return Restart(max_restarts=2, backoff_s=0.01, backoff_max_s=0.02, ladder=ladder)


def test_a_start_that_dies_of_memory_is_tried_again_with_less(tmp_path: Path) -> None:
    async def run() -> None:
        marker = str(tmp_path / "once")
        server = server_of(tmp_path, "--die", OOM, "--die-once", marker, restart=policy(LADDER))
        async with server:
            assert server.launch == 2
            assert server.lowered == {"mem-fraction-static": 0.8}

    asyncio.run(run())
    assert shown(tmp_path, 1)["lowered"] == {}
    second = shown(tmp_path, 2)
    assert second["lowered"] == {"mem-fraction-static": 0.8}
    assert second["argv"][second["argv"].index("--mem-fraction-static") + 1] == "0.8"


def test_the_ladder_ends(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(ServerError, match="died while starting"):
            await server_of(tmp_path, "--die", OOM, restart=policy(LADDER)).start()

    asyncio.run(run())
    assert len(list((tmp_path / "launches").iterdir())) == 3
    assert shown(tmp_path, 3)["lowered"] == {"mem-fraction-static": 0.8, "max-running-requests": 8}


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named 'x'",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ],
)
def test_another_death_takes_no_rung(tmp_path: Path, text: str) -> None:
    async def run() -> None:
        with pytest.raises(ServerError):
            await server_of(tmp_path, "--die", text, restart=policy(LADDER)).start()

    asyncio.run(run())
    assert len(list((tmp_path / "launches").iterdir())) == 1
