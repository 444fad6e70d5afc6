"""What the jobs of one process share: one event loop, a loaded model, a server that is still up.

In a sweep, jobs whose server argv and environment are equal use one running server after another:
loading weights again for each job would cost more than the jobs. It is ended when the next job
needs another one, and at the end of the sweep. A run on its own ends its server itself. Tokenizer
and profile stay as long as the jobs name the same model with the same files.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from runner.config import Config, ServerKind
from runner.config import Server as ServerConfig
from runner.model import LoadedModel
from runner.modelfiles import ModelFiles
from runner.servers.argv import LaunchFacts
from runner.servers.base import ModelFacts, Server, open_server
from runner.servers.flags import check_flags
from runner.servers.launched import COMMANDS, LaunchedServer
from runner.servers.ready import listens

T = TypeVar("T")


def sharing_key(config: ServerConfig, facts: ModelFacts) -> str | None:
    """What two jobs must have in common to share a server: its argv and environment, where it
    listens and how it is ended. None: it is not one that can be shared."""
    if config.kind is ServerKind.external:
        return None
    launch = LaunchFacts(port=config.port, seed=0, folder=Path("/"))
    command = COMMANDS[config.kind](config, facts, launch)
    return repr((command.argv, sorted(command.env.items()), config.stop_command))


class Shared:
    """A context manager around all jobs of a process. `keep`: whether there are several."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self._loop = asyncio.Runner()
        self._kept: tuple[str, LaunchedServer] | None = None
        self._model: LoadedModel | None = None
        self._checked: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._model is not None:
                self._model.close()
            if self._kept is not None:
                self.run(self._end_kept())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end on the loop that all jobs share (a kept server lives on it)."""
        return self._loop.run(work)

    def model(self, config: Config, files: ModelFiles) -> LoadedModel:
        """The model, loaded now or by a job before. Raises as `LoadedModel`."""
        if self._model is None or not self._model.serves(config, files):
            made = LoadedModel(config, files)
            if self._model is not None:
                self._model.close()
            self._model = made
        return self._model

    def knows_flags(self, config: ServerConfig) -> bool:
        """`check_flags`, answered once for equal settings: asking the program takes seconds."""
        key = repr((config.kind, config.command, config.python, config.env, config.flags,
                    config.restart.ladder))  # fmt: skip
        if key not in self._checked and check_flags(config):
            self._checked.add(key)
        return key in self._checked

    @asynccontextmanager
    async def server(
        self, config: ServerConfig, facts: ModelFacts, *, launches_dir: Path, first_launch: int
    ) -> AsyncIterator[Server]:
        """A server for one job, not yet started, or still up from the job before.

        Ended when the block ends, unless it did so well that the next job may have it.
        """
        key = sharing_key(config, facts)
        kept = await self._take(key)
        if kept is not None:
            kept.adopt(launches_dir, first_launch=first_launch)
        server = kept or open_server(
            config, facts, launches_dir=launches_dir, first_launch=first_launch
        )
        try:
            yield server
        except BaseException:
            await server.stop()
            raise
        if self.keep and key is not None and isinstance(server, LaunchedServer) and server.alive():
            self._kept = key, server
        else:
            await server.stop()

    async def _take(self, key: str | None) -> LaunchedServer | None:
        """The kept server when it is the one wanted and lives; any other one is ended."""
        if self._kept is not None and self._kept[0] == key:
            server = self._kept[1]
            # The loop stood still between the jobs: only a look tells whether it still lives.
            if await listens(server.endpoints[0]) and server.alive():
                self._kept = None
                return server
        await self._end_kept()
        return None

    async def _end_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept[1].stop()
