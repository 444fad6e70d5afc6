"""The server as the senders see it: there, or being brought back.

One task (`keep`) watches the server; senders ask for the current engine pool and wait while there
is none. A death or a restart costs no sample an attempt. When the restart budget is spent, every
waiting sender gets the ServerError.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from runner.config import ServerKind
from runner.engines.base import Engine, EngineFault, EngineInfo, FaultKind, ServerLoad
from runner.engines.merging import merge_loads
from runner.engines.pool import EndpointStats, EnginePool, merge_stats
from runner.errors import BadAnswers, RunnerError, ServerError
from runner.records import NOT_TOLD, SamplingParams
from runner.servers.base import Endpoint, Server
from runner.servers.ready import listens
from runner.stall import Signs, StallClock, poll_s
from runner.stopping import Stop
from runner.tasks import first

REFUSED_CHECKS = 3
"""Looks in a row, a second apart, at which nobody listens any more before a server counts as gone.
One that listens and is not healthy may be in a long prefill: only `stall_s` ends it."""
DOUBT_PAUSE_S = 0.5
"""How long senders pause after an unreachable answer from a server that is healthy after all."""


_PROBE_FAILED = "The server is up, but a first small request gave no usable answer."


def _told(faults: dict[str, EngineFault]) -> dict[str, str]:
    return {
        "where": ", ".join(faults),
        "found": "; ".join(f"{fault.reason}: {fault.detail}" for fault in faults.values()),
        "next_step": "look into the server's log under attempts/; nothing was generated",
    }


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
        stall_s: float,
        notify: Callable[..., None] = lambda _event, **_facts: None,
    ) -> None:
        self._server = server
        self._open_engine = open_engine
        self._stop = stop
        self._say = say
        self._on_launch = on_launch
        self._stall_s = stall_s
        self._notify = notify
        self._clocks: dict[str, StallClock] = {}
        self._past: list[EnginePool] = []
        self.load: ServerLoad | None = None
        """What the server said last of what it is doing; None while it does not tell."""
        self._pool: EnginePool | None = None
        self._up = asyncio.Event()
        self._doubt = asyncio.Event()
        self._doubted = ""
        self._condemned = ""
        self.check_restarted: Callable[[EnginePool, int, str], Awaitable[None]] | None = None
        """Asked of a server that was just brought back, before anybody else may use it."""
        self._failure: RunnerError | None = None
        self.deaths = 0
        self.restart_s = 0.0
        """Time without a server, while it was brought back."""

    @property
    def launch(self) -> int:
        """The ordinal of the launch that answers now; samples record it."""
        return self._server.launch

    async def start(self) -> None:
        """Start the server and open the pool. Raises ServerError."""
        await self._server.start()
        self._open()
        self._up.set()

    async def probe(self, input_ids: list[int], sampling: SamplingParams) -> None:
        """One real generation at every endpoint: a server is ready when it can do its work.

        Raises:
            BadAnswers: one answers wrongly ("not ready yet" does not look like that).
            ServerError: none answers, or one denies the request.
        """
        faults = await (await self.pool()).probe(input_ids, sampling)
        bad = {name: fault for name, fault in faults.items() if fault is not None}
        wrong = {n: f for n, f in bad.items() if f.kind in (FaultKind.UNUSABLE, FaultKind.REFUSED)}
        denied = {n: f for n, f in bad.items() if f.kind is FaultKind.DENIED}
        for shown, error in ((wrong, BadAnswers), (denied, ServerError)):
            if shown:
                raise error(_PROBE_FAILED, **_told(shown))
        if len(bad) == len(faults):
            raise ServerError(_PROBE_FAILED, **_told(bad))

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

    async def infos(self) -> dict[str, EngineInfo]:
        """What each endpoint says of itself, secrets taken out; {} when one does not answer."""
        try:
            return await (await self.pool()).infos()
        except EngineFault:
            return {}

    async def look(self) -> ServerLoad | None:
        """What the server is doing now; None when it is away or does not tell."""
        if self._pool is None or not self._up.is_set():
            return None
        self.load = await self._pool.load()
        return self.load

    def endpoint_stats(self) -> list[EndpointStats]:
        """The share of every endpoint so far, those of earlier launches included."""
        pools = [*self._past, *([self._pool] if self._pool else [])]
        return merge_stats(stats for pool in pools for stats in pool.stats())

    def figures(self) -> dict[str, float]:
        """The server's own counters, and each endpoint's share where there are several, under the
        names that tracking gets. What is not told is not there."""
        told = msgspec.to_builtins(self.load) if self.load is not None else {}
        found = {f"server/{name}": v for name, v in told.items() if v is not None and v != NOT_TOLD}
        found["server/deaths"] = self.deaths
        stats = self.endpoint_stats()
        for one in stats if len(self._server.endpoints) > 1 else []:
            found[f"endpoint/{one.endpoint}/answered"] = one.answered
            found[f"endpoint/{one.endpoint}/output_tokens"] = one.output_tokens
            found[f"endpoint/{one.endpoint}/faults"] = sum(one.faults.values())
        return found

    def doubt(self, pool: EnginePool, reason: str) -> None:
        """A sender got no answer from this pool; `keep` finds out whether the server is gone. While
        another endpoint is in use the pool itself sets the failing one aside."""
        if pool is self._pool and pool.usable < 2 and not self._doubt.is_set():
            self._doubted = reason
            self._up.clear()
            self._doubt.set()

    @property
    def ours(self) -> bool:
        """Whether the server is started by us, so that it can be started again."""
        return self._server.kind is not ServerKind.external

    async def renew(self, reason: str) -> None:
        """Start the server again although it answers. Raises ServerError, BadAnswers."""
        self._condemned = reason
        self._up.clear()
        self._doubt.set()
        await self.pool()

    async def keep(self) -> None:
        """Bring the server back whenever it is gone, until cancelled. Raises ServerError."""
        try:
            while True:
                reason = await first(self._server.died(), self._hung(), self._doubt.wait())
                if not isinstance(reason, str):
                    reason = await first(self._server.died(), self._hung(), self._settled())
                if reason:
                    await self._bring_back(str(reason))
                self._doubt.clear()
                self._up.set()
        except RunnerError as error:
            self._failure = error
            self._up.set()
            raise

    async def _settled(self) -> str:
        """After a doubt: "" once the server is healthy after all, else why it counts as gone."""
        if self._condemned:
            reason, self._condemned = self._condemned, ""
            return reason
        refused = 0
        while refused < REFUSED_CHECKS:
            if not self._server.alive():
                return "its process ended"
            if self._pool is not None and await self._pool.healthy():
                await asyncio.sleep(DOUBT_PAUSE_S)
                return ""
            listening = await asyncio.gather(*(listens(e) for e in self._server.endpoints))
            refused = 0 if any(listening) else refused + 1
            await asyncio.sleep(1.0)
        return f"nobody listens there ({self._doubted})"

    async def _hung(self) -> str:
        """Why the server counts as hung, once it does; a hung endpoint of several is set aside."""
        while True:
            await asyncio.sleep(poll_s(self._stall_s))
            pool = self._pool
            for name in [] if pool is None else await self._stalled(pool):
                what = f"nothing moved for {self._stall_s:g} s while work was running"
                self._say(f"{name}: {what}")
                self._notify("stall", endpoint=name, stall_s=self._stall_s)
                if pool is None or pool.usable < 2:
                    return what
                await pool.abandon(name)

    async def _stalled(self, pool: EnginePool) -> list[str]:
        """One look at every endpoint in use: the names of those that hang."""
        loads = await pool.loads()
        self.load = merge_loads([load for load in loads.values() if load is not None])
        now, log_bytes, hung = time.monotonic(), self._server.log_bytes(), []
        for stats in pool.stats():
            if not stats.in_use and pool.usable:
                continue
            load = loads.get(stats.endpoint)
            busy = stats.outstanding > 0 or self._doubt.is_set() or bool(load and load.running > 0)
            clock = self._clocks.setdefault(stats.endpoint, StallClock(self._stall_s))
            if clock.look(Signs(stats.answered, load, log_bytes), busy=busy, now=now):
                hung.append(stats.endpoint)
        return hung

    async def _bring_back(self, reason: str) -> None:
        self.deaths += 1
        since = time.monotonic()
        self._up.clear()
        self._say(f"server lost: {reason}; bringing it back")
        self._notify("restart", reason=reason, deaths=self.deaths)
        await self._close_pool()
        await self._server.restart(reason)
        pool = self._open()
        if self.check_restarted is not None:
            await self.check_restarted(pool, self._server.launch, reason)
        self._up.set()
        self.restart_s += time.monotonic() - since
        lowered = ", ".join(f"{name}={value}" for name, value in self._server.lowered.items())
        lower = f", out of memory before, so now with {lowered}" if lowered else ""
        self._say(f"server is back (launch {self._server.launch}{lower})")

    def _open(self) -> EnginePool:
        engines = {e.name or e.url: self._open_engine(e) for e in self._server.endpoints}
        self._pool = pool = EnginePool(engines)
        self._on_launch(self._server.launch)
        return pool

    async def _close_pool(self) -> None:
        pool, self._pool = self._pool, None
        self.load = None
        self._clocks.clear()
        if pool is not None:
            self._past.append(pool)
            await pool.close()

    async def close(self) -> None:
        """Close the connections. Ending the server is for whoever opened it."""
        self._up.clear()
        await self._close_pool()
