"""Several endpoints of one kind behind one `generate`; the rules are in `balance`.

Requests are never moved: one that fails is raised, with the endpoint's name in the fault, and the
caller decides. A pool of one works too. No background work but the health probes of endpoints that
are set aside; a call of `send` starts them and `close` ends them.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from runner.engines.balance import EndpointState, choose, note_answer, note_fault, note_probe
from runner.engines.base import Endpoint, Engine, EngineFault, EngineInfo, FaultKind, ServerLoad
from runner.engines.merging import merge_infos, merge_loads
from runner.engines.opening import open_engine
from runner.errors import ConfigError
from runner.records import Completion, Record, SamplingParams


class EndpointStats(Record, frozen=True, kw_only=True):
    """One endpoint's share of the run so far: sent = outstanding + answered + given_up + all
    `faults` (counted by reason). Given up are those that the caller no longer waited for."""

    endpoint: str
    in_use: bool
    outstanding: int
    sent: int
    answered: int
    output_tokens: int
    set_aside: int
    given_up: int
    faults: dict[str, int]


def merge_stats(stats: Iterable[EndpointStats]) -> list[EndpointStats]:
    """One entry for each endpoint: counts added up, the latest state."""
    merged: dict[str, EndpointStats] = {}
    for one in stats:
        past = merged.pop(one.endpoint, None)
        if past is not None:
            one = EndpointStats(
                endpoint=one.endpoint,
                in_use=one.in_use,
                outstanding=one.outstanding,
                sent=past.sent + one.sent,
                answered=past.answered + one.answered,
                output_tokens=past.output_tokens + one.output_tokens,
                set_aside=past.set_aside + one.set_aside,
                given_up=past.given_up + one.given_up,
                faults=dict(Counter(past.faults) + Counter(one.faults)),
            )
        merged[one.endpoint] = one
    return list(merged.values())


class Routed(Record, frozen=True, kw_only=True):
    """A completion and the endpoint that gave it."""

    completion: Completion
    endpoint: str


class EnginePool:
    """Engines by endpoint name. Owns them: `close` closes them all."""

    def __init__(
        self, engines: Mapping[str, Engine], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not engines:
            raise ValueError("a pool needs at least one engine")
        self._engines = dict(engines)
        self._states = [EndpointState(name) for name in engines]
        self._clock = clock
        self._probes: set[asyncio.Task[None]] = set()

    @property
    def kind(self) -> str:
        """The kind that all endpoints share."""
        return next(iter(self._engines.values())).kind

    async def generate(
        self, rid: str, input_ids: list[int], sampling: SamplingParams
    ) -> Completion:
        """As `Engine.generate`. Raises EngineFault."""
        return (await self.send(rid, input_ids, sampling)).completion

    async def send(
        self, rid: str, input_ids: list[int], sampling: SamplingParams, *, avoid: str = ""
    ) -> Routed:
        """Ask one endpoint and say which it was. Raises EngineFault with `endpoint` filled in.

        `avoid` names the endpoint that has just failed this sample: another one is asked if there
        is one.

        With every endpoint set aside it raises `unreachable/all_set_aside` at once.
        """
        self._start_due_probes()
        index = choose(self._states, hash(tuple(input_ids)), avoid=avoid)
        if index is None:
            raise EngineFault(FaultKind.UNREACHABLE, "all_set_aside")
        state = self._states[index]
        state.sent += 1
        state.outstanding += 1
        try:
            completion = await self._engines[state.name].generate(rid, input_ids, sampling)
        except EngineFault as fault:
            fault.endpoint = state.name
            note_fault(state, fault, self._clock(), others=len(self._states) > 1)
            raise
        except asyncio.CancelledError:
            state.given_up += 1
            raise
        finally:
            state.outstanding -= 1
        note_answer(state, completion)
        return Routed(completion=completion, endpoint=state.name)

    async def probe(
        self, input_ids: list[int], sampling: SamplingParams
    ) -> dict[str, EngineFault | None]:
        """Ask every endpoint once: None where it gave a usable answer, else what was wrong."""
        return dict(
            zip(
                self._engines,
                await asyncio.gather(
                    *(_fault_or_none(e, input_ids, sampling) for e in self._engines.values())
                ),
                strict=True,
            )
        )

    async def infos(self) -> dict[str, EngineInfo]:
        """What each endpoint says of itself. Raises EngineFault when one does not answer."""
        answers = await asyncio.gather(*(engine.info() for engine in self._engines.values()))
        return dict(zip(self._engines, answers, strict=True))

    async def info(self) -> EngineInfo:
        """One description for all: the smallest limits, and everything raw by endpoint."""
        return merge_infos(await self.infos())

    async def loads(self) -> dict[str, ServerLoad | None]:
        """What each endpoint in use is doing; None for one that does not tell."""
        in_use = [s.name for s in self._states if s.out_since is None]
        answers = await asyncio.gather(*(_load_or_none(self._engines[name]) for name in in_use))
        return dict(zip(in_use, answers, strict=True))

    async def load(self) -> ServerLoad | None:
        """The sum over the endpoints in use that tell; None when none tells."""
        return merge_loads([load for load in (await self.loads()).values() if load is not None])

    async def abandon(self, endpoint: str) -> None:
        """Set one endpoint aside at once: its requests in flight end as `disconnected`, and it is
        asked for its health after a pause, like any other that failed."""
        state = next(state for state in self._states if state.name == endpoint)
        if state.out_since is None:
            state.out_since = self._clock()
            state.set_aside += 1
        await self._engines[endpoint].close()

    async def healthy(self) -> bool:
        """True when at least one endpoint says that it can generate; those are in use again."""
        answers = await asyncio.gather(*(e.healthy() for e in self._engines.values()))
        for state, answer in zip(self._states, answers, strict=True):
            if answer:
                state.on_trial |= state.out_since is not None
                state.out_since, state.failures_in_a_row = None, 0
        return any(answers)

    @property
    def usable(self) -> int:
        """Endpoints in use now."""
        return sum(state.out_since is None for state in self._states)

    def stats(self) -> list[EndpointStats]:
        """The share of each endpoint so far, in the order of the config."""
        return [
            EndpointStats(
                endpoint=state.name,
                in_use=state.out_since is None,
                outstanding=state.outstanding,
                sent=state.sent,
                answered=state.answered,
                output_tokens=state.output_tokens,
                set_aside=state.set_aside,
                given_up=state.given_up,
                faults=dict(state.faults),
            )
            for state in self._states
        ]

    async def close(self) -> None:
        """End the probes and close every engine."""
        probes = list(self._probes)
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    def _start_due_probes(self) -> None:
        for state in self._states:
            if state.due(self._clock()):
                state.probing = True
                probe = asyncio.create_task(self._probe(state))
                self._probes.add(probe)
                probe.add_done_callback(self._probes.discard)

    async def _probe(self, state: EndpointState) -> None:
        healthy = False
        try:
            healthy = await self._engines[state.name].healthy()
        finally:
            note_probe(state, healthy=healthy, now=self._clock())


async def _fault_or_none(
    engine: Engine, input_ids: list[int], sampling: SamplingParams
) -> EngineFault | None:
    try:
        await engine.generate(f"probe-{secrets.token_hex(6)}", input_ids, sampling)
    except EngineFault as fault:
        return fault
    return None


async def _load_or_none(engine: Engine) -> ServerLoad | None:
    try:
        return await engine.load()
    except EngineFault:  # this endpoint does not tell; its requests will say why
        return None


def open_pool(
    kind: str,
    endpoints: Sequence[Endpoint],
    *,
    vocab_size: int,
    timeout_s: float | None = None,
    max_connections: int,
) -> EnginePool:
    """A pool over endpoints of one kind; nothing is sent yet.

    Raises ConfigError for an unknown kind, for no endpoint, and for one that is named twice.
    """
    urls = [endpoint.url for endpoint in endpoints]
    if not urls or len(set(urls)) < len(urls):
        raise ConfigError(
            "a pool needs endpoints, each named once",
            where="server.urls",
            found=", ".join(urls) or "none",
        )
    return EnginePool(
        {
            endpoint.url: open_engine(
                kind,
                endpoint,
                vocab_size=vocab_size,
                timeout_s=timeout_s,
                max_connections=max_connections,
            )
            for endpoint in endpoints
        }
    )
