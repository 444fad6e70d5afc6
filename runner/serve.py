"""`python -m runner.serve model=... server=...`: a server with a lifetime of its own.

Weights of 600 GB should not load again for each change of a config. This starts the configured
server as a run would, brings it back when it dies, and prints the words that attach a run to it;
a run's identity is the same either way. It ends with Ctrl-C or SIGTERM, and the server with it.
"""

import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.cli import enter
from runner.config import Config, ServerKind
from runner.errors import ConfigError, Interrupted
from runner.modelfiles import find_model
from runner.resolve import model_facts
from runner.servers.base import Endpoint, Server, open_server
from runner.servers.flags import check_flags
from runner.servers.llamacpp_main import API_KEY_ENV
from runner.servers.ports import free_port
from runner.stopping import Stop
from runner.tasks import first


def main() -> None:
    """The command."""
    enter(serve)


def serve(config: Config) -> int:
    """Serve until told to end. Gives 130, or raises ServerError when it does not stay up."""
    if config.server.kind is ServerKind.external:
        raise ConfigError(
            "An external server is already served by somebody else.",
            where="server",
            found=config.server.name,
            next_step="choose server=sglang or server=llamacpp",
        )
    check_flags(config.server)
    # One port for all launches: runs that are attached find it again after a restart.
    port = config.server.port or free_port(config.server.host)
    config = replace(config, server=replace(config.server, port=port))
    folder = Path(config.paths.outputs) / ".servers" / time.strftime("%Y-%m-%d_%H-%M-%S")
    facts = model_facts(config, find_model(config.model))
    return asyncio.run(_serve(config, open_server(config.server, facts, launches_dir=folder)))


async def _serve(config: Config, server: Server) -> int:
    stop = Stop(_say)
    with stop.on_signals():
        try:
            _say(f"starting {config.server.name}; its log is under {config.paths.outputs}/.servers")
            await first(server.start(), stop.draining.wait())
            if not stop.requested:
                _tell(config, server.endpoints[0])
            while not stop.requested:
                reason = await first(server.died(), stop.draining.wait())
                if isinstance(reason, str):
                    _say(f"server lost: {reason}; starting it again")
                    await first(server.restart(reason), stop.draining.wait())
                    _say("server is back")
        finally:
            await server.stop()
    return Interrupted.exit_code


def _tell(config: Config, endpoint: Endpoint) -> None:
    """How to attach. A key that was made here is handed over by a file, never on the screen."""
    _say("ready. Attach a run with:")
    if endpoint.api_key and not os.environ.get(API_KEY_ENV):
        path = Path(config.paths.outputs) / ".servers" / f"key-{config.server.port}"
        path.touch(mode=0o600)
        path.write_text(endpoint.api_key)
        sys.stdout.write(f"  export {API_KEY_ENV}=$(cat {shlex.quote(str(path))})\n")
    words = attach_words(sys.argv[1:], engine=config.server.engine.value, url=endpoint.url)
    sys.stdout.write(f"  python -m runner {shlex.join(words)}\n")
    sys.stdout.flush()


def attach_words(given: Sequence[str], *, engine: str, url: str) -> list[str]:
    """The overrides of a run that uses this server: everything that was said here but of servers,
    and its address. Hydra's own options are left out."""
    kept = [
        word for word in given if not word.startswith("-") and not re.match(r"[+~]*server\b", word)
    ]
    return [*kept, "server=external", f"server.engine={engine}", f"server.urls=[{url}]"]


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
