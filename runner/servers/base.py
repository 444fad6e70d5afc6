"""Servers as the rest of the program sees them: `async with open_server(...) as server`.

llamacpp, sglang   started here, under a supervisor (`launched`, `process`, `supervisor`)
external           somebody else's, reached by URL (`external`)
"""

import secrets
from pathlib import Path

from runner.config import Server as ServerConfig
from runner.config import ServerKind
from runner.servers.endpoint import Endpoint, ModelFacts, Server
from runner.servers.external import ExternalServer
from runner.servers.launched import LaunchedServer

__all__ = ["KINDS", "Endpoint", "ModelFacts", "Server", "open_server"]

KINDS: dict[ServerKind, type[LaunchedServer] | type[ExternalServer]] = {
    ServerKind.llamacpp: LaunchedServer,
    ServerKind.sglang: LaunchedServer,
    ServerKind.external: ExternalServer,
}


def open_server(
    config: ServerConfig,
    model_facts: ModelFacts,
    *,
    launches_dir: Path,
    seed: int | None = None,
    first_launch: int = 1,
) -> Server:
    """A server, not yet started: enter it with `async with`, or call `start` and `stop`.

    `launches_dir` gets a folder for each launch, numbered from `first_launch`. Each launch's own
    random seed is derived from `seed` (None: one is drawn) and recorded in its folder. Raises
    ConfigError where the config cannot work.
    """
    return KINDS[config.kind](
        config,
        model_facts,
        launches_dir=launches_dir,
        seed=secrets.randbits(31) if seed is None else seed,
        first_launch=first_launch,
    )
