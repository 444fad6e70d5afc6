"""Sending: every owed sample asked for once, bounded in flight, no barrier, every end recorded.

One request is one prompt with n = 1 and an id of its own, never streamed. What a fault means:

    unusable     asked again, with backoff, until `client.retry.max_attempts`; then recorded
    refused      recorded at once: asking again cannot help
    busy         asked again later; costs no attempt
    unreachable  the server may be gone: wait for `Serving`; costs no attempt
    denied       the run stops: no request would fare better

A sample in flight at two deaths of the server is a suspect and is asked for alone at the end; one
that kills the server alone is recorded as `kills_server`.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from runner.config import Breaker, Canary, Client
from runner.engines.base import EngineFault, FaultKind
from runner.engines.pool import EnginePool, Routed
from runner.errors import BadAnswers, ServerError
from runner.plan import PromptReader
from runner.recorder import Recorder
from runner.records import (
    Failure,
    Judgement,
    PlannedSample,
    Prompt,
    Record,
    Sample,
    SamplingParams,
)
from runner.serving import Drained, Serving
from runner.stopping import Stop
from runner.tasks import run_all

BATCH = 16
"""Requests rendered at a time in the rendering thread."""
SUSPECT_DEATHS = 2
BREAKER_AT_LEAST = 12
"""Judged samples that the breaker needs before it may trip."""


class Request(NamedTuple):
    """A planned sample, rendered."""

    planned: PlannedSample
    prompt: Prompt
    input_ids: list[int]


class Render(Protocol):
    """Prompt to ids, as at planning."""

    def __call__(self, prompt: Prompt) -> list[int]: ...


class Origin(Record, frozen=True, kw_only=True):
    """What all samples of an attempt have in common."""

    run_id: str
    mode: str
    sampling_digest: str
    attempt: int


def requests_of(
    planned: Iterator[PlannedSample], prompts: PromptReader, render: Render
) -> Iterator[Request]:
    """Render what is owed, one at a time, in sending order."""
    for sample in planned:
        prompt = prompts.read(sample.prompt)
        yield Request(sample, prompt, render(prompt))


class Feed:
    """Requests for the senders, rendered ahead in a thread, at most one queue full."""

    def __init__(self, requests: Iterator[Request], ahead: int, stop: Stop) -> None:
        self._requests = requests
        self._queue: asyncio.Queue[Request] = asyncio.Queue(maxsize=ahead)
        self._stop = stop
        self._ended = asyncio.Event()

    async def fill(self) -> None:
        """Render until all is rendered or the run is told to stop."""
        try:
            while batch := await asyncio.to_thread(self._take):
                for request in batch:
                    await self._queue.put(request)
        finally:
            self._ended.set()

    def _take(self) -> list[Request]:
        batch: list[Request] = []
        while len(batch) < BATCH and not self._stop.requested:
            request = next(self._requests, None)
            if request is None:
                break
            batch.append(request)
        return batch

    async def next(self) -> Request | None:
        """The next request, or None when there is no more."""
        while not self._stop.requested:
            if not self._queue.empty():
                return self._queue.get_nowait()
            if self._ended.is_set():
                return None
            getting = asyncio.ensure_future(self._queue.get())
            others = [asyncio.ensure_future(e.wait()) for e in (self._ended, self._stop.draining)]
            try:
                await asyncio.wait([getting, *others], return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    return getting.result()
            finally:
                for task in (getting, *others):
                    task.cancel()
        return None


class Watch:
    """Canary and circuit breaker: counts rejected and failed samples as they come."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._window: deque[tuple[bool, str]] = deque(maxlen=breaker.window)
        self.seen = 0

    def saw(self, bad: bool, why: str = "") -> None:
        """One more settled sample. Raises BadAnswers when the window holds too many bad ones."""
        self.seen += 1
        self._window.append((bad, why))
        if self._breaker.enabled and len(self._window) >= min(
            BREAKER_AT_LEAST, self._breaker.window
        ):
            self._check("The circuit breaker stopped the run", self._breaker.max_rejected)

    def check_canary(self, canary: Canary) -> None:
        """After the first wave. Raises BadAnswers when more than `max_rejected` of it is bad."""
        if self._window:
            self._check("The canary stopped the run", canary.max_rejected)

    def _check(self, what: str, limit: float) -> None:
        bad = [why for is_bad, why in self._window if is_bad]
        share = len(bad) / len(self._window)
        if share > limit:
            main = max(set(bad), key=bad.count)
            raise BadAnswers(
                f"{what}, mainly for {main}: {len(bad)} of the last {len(self._window)} samples "
                "were rejected or failed.",
                found=", ".join(f"{bad.count(r)} x {r}" for r in sorted(set(bad))),
                allowed=f"at most {limit:.0%}",
                next_step="look: python -m runner.runs decode latest --random 3 ; then mend the "
                "server and run the same command again",
            )


class Sender:
    """Asks for owed samples until there are none, the run is stopped, or the answers are bad."""

    def __init__(
        self,
        serving: Serving,
        recorder: Recorder,
        sampling: SamplingParams,
        origin: Origin,
        client: Client,
        stop: Stop,
        watch: Watch,
    ) -> None:
        self._serving = serving
        self._recorder = recorder
        self._sampling = sampling
        self._origin = origin
        self._client = client
        self._stop = stop
        self._watch = watch
        self._suspects: list[Request] = []
        self.in_flight = 0
        self.requests = 0

    async def wave(self, feed: Feed, limit: int | None = None) -> None:
        """Send at most `limit` requests of the feed (None: all) and wait for their ends.

        Raises:
            BadAnswers, ServerError, MachineError: the run must stop; what was accepted stays.
        """
        tickets = iter(range(limit)) if limit is not None else None
        width = self._client.concurrency if limit is None else min(limit, self._client.concurrency)
        await run_all([self._worker(feed, tickets) for _ in range(width)], self._stop.aborting)

    async def _worker(self, feed: Feed, tickets: Iterator[int] | None) -> None:
        while tickets is None or next(tickets, None) is not None:
            request = await feed.next()
            if request is None:
                return
            try:
                await self._settle(request)
            except Drained:
                return

    async def suspects(self) -> None:
        """Ask for the suspects, one alone at a time."""
        while self._suspects and not self._stop.requested:
            await run_all([self._settle(self._suspects.pop(), alone=True)], self._stop.aborting)

    async def _settle(self, request: Request, *, alone: bool = False) -> None:
        """Bring one request to an end: a sample, a failure, or a place among the suspects."""
        await self._recorder.room()
        attempts = deaths = waits = 0
        while True:
            pool = await self._serving.pool()
            launch, sent_at, start = self._serving.launch, time.time(), time.monotonic()
            try:
                routed = await self._ask(pool, request)
            except EngineFault as fault:
                if fault.kind is FaultKind.DENIED:
                    raise _denied(fault) from fault
                attempts += fault.kind in (FaultKind.UNUSABLE, FaultKind.REFUSED)
                if fault.kind is FaultKind.UNREACHABLE:
                    self._serving.doubt(pool, f"{fault.reason}: {fault.detail}")
                    await self._serving.pool()
                    deaths += self._serving.launch != launch
                    if alone and deaths:
                        self._fail(request, attempts, "kills_server", fault, permanent=True)
                        return
                    if deaths >= SUSPECT_DEATHS:
                        self._suspects.append(request)
                        return
                elif fault.kind is FaultKind.REFUSED:
                    self._fail(request, attempts, fault.reason, fault, permanent=True)
                    return
                elif attempts >= self._client.retry.max_attempts:
                    self._fail(request, attempts, fault.reason, fault, permanent=False)
                    return
                waits += 1
                await asyncio.sleep(self._backoff_s(waits))
                continue
            sample = self._sample(request, routed, launch, sent_at, time.monotonic() - start)
            self._judged(self._recorder.accept(sample, request.prompt))
            return

    async def _ask(self, pool: EnginePool, request: Request) -> Routed:
        rid = f"{request.planned.sample_id}.{secrets.token_hex(6)}"
        self.in_flight += 1
        self.requests += 1
        try:
            return await pool.send(rid, request.input_ids, self._sampling)
        finally:
            self.in_flight -= 1

    def _backoff_s(self, waits: int) -> float:
        retry = self._client.retry
        return float(min(retry.backoff_max_s, retry.backoff_s * 2 ** (waits - 1)))

    def _judged(self, judgement: Judgement) -> None:
        reasons = (v.reason for v in judgement.verdicts.values() if v.severity == "reject")
        self._watch.saw(judgement.rejected, next(reasons, ""))

    def _fail(
        self, request: Request, requests: int, reason: str, fault: EngineFault, *, permanent: bool
    ) -> None:
        planned = request.planned
        failure = Failure(
            sample_id=planned.sample_id,
            prompt_hash=planned.prompt_hash,
            category=planned.category,
            kind="failed",
            reason=reason,
            detail=fault.detail,
            requests=requests,
            permanent=permanent,
            attempt=self._origin.attempt,
            at=time.time(),
            raw=fault.raw,
        )
        self._recorder.failed(failure, for_good=True)
        self._watch.saw(True, reason)

    def _sample(
        self, request: Request, routed: Routed, launch: int, sent_at: float, latency_s: float
    ) -> Sample:
        planned, prompt, got = request.planned, request.prompt, routed.completion
        return Sample(
            run_id=self._origin.run_id,
            sample_id=planned.sample_id,
            category=planned.category,
            source=planned.source,
            row=planned.row,
            turn=planned.turn,
            k=planned.k,
            try_=0,
            prompt_hash=prompt.prompt_hash,
            mode=self._origin.mode,
            sampling_digest=self._origin.sampling_digest,
            input_ids=request.input_ids,
            output_ids=got.output_ids,
            finish=got.finish,
            matched_token=got.matched_token,
            matched_text=got.matched_text,
            finish_length=got.finish_length,
            requested_max_new_tokens=self._sampling.max_new_tokens,
            prompt_echo=got.prompt_echo,
            prompt_tokens=got.prompt_tokens,
            completion_tokens=got.completion_tokens,
            cached_tokens=got.cached_tokens,
            retractions=got.retractions,
            weight_version=got.weight_version,
            endpoint=routed.endpoint,
            launch=launch,
            attempt=self._origin.attempt,
            sent_at=round(sent_at, 3),
            finished_at=round(sent_at + latency_s, 3),
            latency_s=round(latency_s, 4),
        )


def _denied(fault: EngineFault) -> ServerError:
    return ServerError(
        "The server refuses this client.",
        where=fault.endpoint,
        found=f"{fault.reason}: {fault.detail}",
        next_step="check server.urls and the API key",
    )
