"""The server as the senders see it: there, or being brought back.

One task (`keep`) watches the server; senders ask for the current engine pool and wait while there
is none. A death or a restart costs no sample an attempt. When the restart budget is spent, every
waiting sender gets the ServerError.
"""

import asyncio
from collections.abc import Callable

from runner.engines.base import Engine, EngineFault, FaultKind
from runner.engines.pool import EnginePool
from runner.errors import BadAnswers, RunnerError, ServerError
from runner.records import SamplingParams
from runner.servers.base import Endpoint, Server
from runner.stopping import Stop
from runner.tasks import first

HEALTH_CHECKS = 3
"""Failed health checks in a row, a second apart, before an unreachable server counts as gone."""
DOUBT_PAUSE_S = 0.5
"""How long senders pause after an unreachable answer from a server that is healthy after all."""


class Drained(Exception):
    """The server is away and the run is ending: give the request up, it is owed again."""


class Serving:
    """A started server with its engine pool."""

    def __init__(
        self,
        server: Server,
        open_engine: Callable[[Endpoint], Engine],
        stop: Stop,
        *,
        say: Callable[[str], None],
        on_launch: Callable[[int], None],
    ) -> None:
        self._server = server
        self._open_engine = open_engine
        self._stop = stop
        self._say = say
        self._on_launch = on_launch
        self._pool: EnginePool | None = None
        self._up = asyncio.Event()
        self._doubt = asyncio.Event()
        self._doubted = ""
        self._failure: RunnerError | None = None
        self.deaths = 0

    @property
    def launch(self) -> int:
        """The ordinal of the launch that answers now; samples record it."""
        return self._server.launch

    async def start(self) -> None:
        """Start the server and open the pool. Raises ServerError."""
        await self._server.start()
        self._open()

    async def probe(self, input_ids: list[int], sampling: SamplingParams) -> None:
        """One real generation: a server is ready when it can do its work.

        Raises:
            BadAnswers: it answers, wrongly ("not ready yet" does not look like that).
            ServerError: it does not answer, or denies the request.
        """
        pool = await self.pool()
        try:
            await pool.generate("probe", input_ids, sampling)
        except EngineFault as fault:
            wrong = fault.kind in (FaultKind.UNUSABLE, FaultKind.REFUSED)
            raise (BadAnswers if wrong else ServerError)(
                "The server is up, but a first small request gave no usable answer.",
                where=fault.endpoint or self._server.kind.value,
                found=f"{fault.reason}: {fault.detail}",
                next_step="look into the server's log under attempts/; nothing was generated",
            ) from fault

    async def pool(self) -> EnginePool:
        """The pool of the live server, waiting while it is brought back.

        Raises:
            ServerError: it could not be brought back.
            Drained: it is away and the run is ending.
        """
        while self._pool is None or not self._up.is_set():
            if self._failure is not None:
                raise self._failure
            if self._stop.requested:
                raise Drained
            await first(self._up.wait(), self._stop.draining.wait())
        return self._pool

    def doubt(self, pool: EnginePool, reason: str) -> None:
        """A sender got no answer from this pool; `keep` finds out whether the server is gone."""
        if pool is self._pool and not self._doubt.is_set():
            self._doubted = reason
            self._up.clear()
            self._doubt.set()

    async def keep(self) -> None:
        """Bring the server back whenever it is gone, until cancelled. Raises ServerError."""
        try:
            while True:
                died = await first(self._server.died(), self._doubt.wait())
                reason = died if isinstance(died, str) else await self._why_gone()
                if reason:
                    await self._bring_back(reason)
                self._doubt.clear()
                self._up.set()
        except RunnerError as error:
            self._failure = error
            self._up.set()
            raise

    async def _why_gone(self) -> str:
        """ "" when the server is healthy after all."""
        for _ in range(HEALTH_CHECKS):
            if not self._server.alive():
                return "its process ended"
            if self._pool is not None and await self._pool.healthy():
                await asyncio.sleep(DOUBT_PAUSE_S)
                return ""
            await asyncio.sleep(1.0)
        return f"it does not answer ({self._doubted})"

    async def _bring_back(self, reason: str) -> None:
        self.deaths += 1
        self._up.clear()
        self._say(f"server lost: {reason}; starting it again")
        await self._close_pool()
        await self._server.restart(reason)
        self._open()
        self._say(f"server is back (launch {self._server.launch})")

    def _open(self) -> None:
        engines = {e.name or e.url: self._open_engine(e) for e in self._server.endpoints}
        self._pool = EnginePool(engines)
        self._on_launch(self._server.launch)
        self._up.set()

    async def _close_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def close(self) -> None:
        """Close connections and end the server."""
        self._up.clear()
        await self._close_pool()
        await self._server.stop()
