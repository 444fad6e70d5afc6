"""Sending: every owed sample asked for once, bounded in flight, no barrier, every end recorded.

One request is one prompt with n = 1 and an id of its own, never streamed. What a fault means for
its sample is decided in `runner.tries`, with one exception: where a route or key is denied the run
stops, since no request would fare better. Suspects are asked for alone, at the end.

Every end and every unusable answer is shown to the watch; when it trips, the wave ends at once, and
what was in flight goes back into the feed.
"""

import asyncio
import itertools
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runner.budget import Budget
from runner.config import Client
from runner.engines.base import EngineFault, FaultKind
from runner.engines.pool import EnginePool, Routed
from runner.errors import MachineError, ServerError
from runner.flow import Flow
from runner.plan import PromptReader
from runner.preflight import Limits, clipped
from runner.recorder import Recorder
from runner.records import (
    Failure,
    OwedSample,
    Prompt,
    Record,
    Sample,
    SamplingParams,
)
from runner.render import RenderFault
from runner.rendering import RenderAhead
from runner.serving import Drained, Serving
from runner.stopping import Stop
from runner.tasks import run_all
from runner.tries import Next, Step, Tries, backoff_s
from runner.watch import Watch

BATCH = 16
"""Requests rendered at a time in the rendering thread."""


class Request(NamedTuple):
    """A planned sample, rendered."""

    planned: OwedSample
    prompt: Prompt
    input_ids: list[int]


class Origin(Record, frozen=True, kw_only=True):
    """What all samples of an attempt have in common."""

    run_id: str
    mode: str
    sampling_digest: str
    attempt: int


def requests_of(
    planned: Iterator[OwedSample], prompts: PromptReader, render: RenderAhead
) -> Iterator[Request]:
    """Render what is owed, in sending order, as far ahead as `render` does.

    Raises:
        MachineError: a prompt that could be rendered at planning no longer can.
    """
    here, there = itertools.tee((sample, prompts.read(sample.prompt)) for sample in planned)
    rendered = render(prompt for _, prompt in there)
    for sample, prompt in here:
        result = next(rendered)
        if isinstance(result, RenderFault):
            raise MachineError(
                "A planned prompt can no longer be rendered.",
                where=sample.sample_id,
                found=str(result),
                next_step="tokenizer or template changed; task_name=NAME begins another run",
            )
        yield Request(sample, prompt, result.ids)


class Feed:
    """Requests for the senders, rendered ahead in a thread, at most one queue full."""

    def __init__(self, requests: Iterator[Request], ahead: int, stop: Stop) -> None:
        self._requests = requests
        self._queue: asyncio.Queue[Request] = asyncio.Queue(maxsize=ahead)
        self._stop = stop
        self._ended = asyncio.Event()
        self._returned: deque[Request] = deque()

    def give_back(self, requests: Iterable[Request]) -> None:
        """Requests that were taken and could not be settled; they come first again."""
        self._returned.extend(requests)

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
            if self._returned:
                return self._returned.popleft()
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
        budget: Budget,
        flow: Flow,
    ) -> None:
        self._serving = serving
        self._recorder = recorder
        self._sampling = sampling
        self._origin = origin
        self._client = client
        self._stop = stop
        self._watch = watch
        self._budget = budget
        self._permits, self._meter = flow.permits, flow.meter
        self.limits: Limits | None = None
        """Of config and server together; None while the server has told none."""
        self._suspects: list[Request] = []
        self._open: dict[str, Request] = {}
        """Taken from the feed and not settled."""
        self.in_flight = 0
        self.requests = 0

    async def wave(self, feed: Feed, limit: int | None = None) -> None:
        """Send at most `limit` requests of the feed (None: all) and wait for their ends.

        Raises:
            Tripped: the answers are bad; what was not settled is back in the feed.
            BadAnswers, ServerError, MachineError: the run must stop; what was accepted stays.
        """
        tickets = iter(range(limit)) if limit is not None else None
        most = self._permits.most
        width = most if limit is None else min(limit, most)
        try:
            await run_all([self._worker(feed, tickets) for _ in range(width)], self._stop.aborting)
        finally:
            feed.give_back(self._open.values())
            self._open.clear()

    async def _worker(self, feed: Feed, tickets: Iterator[int] | None) -> None:
        while tickets is None or next(tickets, None) is not None:
            async with self._permits:
                request = await feed.next()
                if request is None:
                    self._meter.exhaust()
                    return
                if not await self._send(request):
                    return
        self._meter.exhaust()

    async def _send(self, request: Request) -> bool:
        """One request, if there is a budget for it; False: nothing more is to be sent."""
        self._open[request.planned.sample_id] = request
        part = request.planned.category
        if not await self._budget.admit(part):
            del self._open[request.planned.sample_id]
            return not self._budget.is_reached
        try:
            if self._stop.requested:
                return False
            await self._settle(request)
        except Drained:
            return False
        finally:
            self._budget.settled(part)
        return True

    async def suspects(self) -> None:
        """Ask for the suspects, one alone at a time. Raises as `wave` does."""
        while self._suspects and not self._stop.requested:
            request = self._suspects.pop()
            try:
                await run_all([self._settle(request, alone=True)], self._stop.aborting)
            finally:
                self._suspects.extend(self._open.values())
                self._open.clear()

    async def _settle(self, request: Request, *, alone: bool = False) -> None:
        """Bring one request to an end: a sample, a failure, or a place among the suspects."""
        self._open[request.planned.sample_id] = request
        await self._recorder.room()
        sampling = clipped(self._sampling, len(request.input_ids), self.limits)
        tries = Tries(request.planned.asked, most=self._client.retry.max_attempts, alone=alone)
        failed_at = ""
        for waits in itertools.count():
            pool = await self._serving.pool()
            deaths, launch = self._serving.deaths, self._serving.launch
            sent_at, start = time.time(), time.monotonic()
            try:
                routed = await self._ask(pool, request, sampling, avoid=failed_at)
            except EngineFault as fault:
                failed_at = fault.endpoint
                if not await self._goes_on(request, tries, fault, pool, deaths):
                    return
                await asyncio.sleep(backoff_s(waits, self._client.retry))
                continue
            latency_s = time.monotonic() - start
            sample = sample_of(request, routed, self._origin, sampling, launch, sent_at, latency_s)
            self._meter.answered(routed.completion, latency_s)
            judgement = self._recorder.accept(sample, request.prompt)
            del self._open[sample.sample_id]
            self._budget.spend(sample.category, len(sample.output_ids))
            self._watch.saw(judgement, sample)
            return

    async def _goes_on(
        self, request: Request, tries: Tries, fault: EngineFault, pool: EnginePool, deaths: int
    ) -> bool:
        """Whether the sample is to be asked for again; if not, it has found its end. `deaths` is
        how often the server had died before this request."""
        if fault.kind is FaultKind.DENIED:
            raise _denied(fault) from fault
        if fault.kind is FaultKind.UNREACHABLE:
            self._serving.doubt(pool, f"{fault.reason}: {fault.detail}")
            await self._serving.pool()
        step = tries.after(fault, died=self._serving.deaths != deaths)
        match step.next:
            case Next.FAILED:
                self._fail(request, tries.asked, step, fault)
            case Next.SUSPECT:
                self._suspects.append(request)
                del self._open[request.planned.sample_id]
            case Next.AGAIN if fault.kind is FaultKind.UNUSABLE:
                self._saw_fault(request, fault.reason, fault)
        return step.next is Next.AGAIN

    async def _ask(
        self, pool: EnginePool, request: Request, sampling: SamplingParams, *, avoid: str
    ) -> Routed:
        rid = f"{request.planned.sample_id}.{secrets.token_hex(6)}"
        self.in_flight += 1
        self.requests += 1
        self._meter.sent()
        try:
            return await pool.send(rid, request.input_ids, sampling, avoid=avoid)
        finally:
            self.in_flight -= 1
            self._meter.back()

    def _fail(self, request: Request, requests: int, step: Step, fault: EngineFault) -> None:
        """Record a failure for good. `requests` are all that were spent on it, earlier attempts'
        included; a line of failures.jsonl tells of this attempt's."""
        planned = request.planned
        failure = Failure(
            sample_id=planned.sample_id,
            prompt_hash=planned.prompt_hash,
            category=planned.category,
            kind="failed",
            reason=step.reason,
            detail=fault.detail,
            requests=requests - planned.asked,
            permanent=step.permanent,
            try_=planned.try_,
            attempt=self._origin.attempt,
            at=time.time(),
            raw=fault.raw,
        )
        self._recorder.failed(failure, for_good=True)
        del self._open[planned.sample_id]
        self._saw_fault(request, step.reason, fault)

    def _saw_fault(self, request: Request, reason: str, fault: EngineFault) -> None:
        planned = request.planned
        self._watch.saw_fault(
            reason,
            fault.detail,
            category=planned.category,
            sample_id=planned.sample_id,
            raw=fault.raw,
        )


def sample_of(
    request: Request,
    routed: Routed,
    origin: Origin,
    sampling: SamplingParams,
    launch: int,
    sent_at: float,
    latency_s: float,
) -> Sample:
    """The record of one answered request."""
    planned, prompt, got = request.planned, request.prompt, routed.completion
    return Sample(
        run_id=origin.run_id,
        sample_id=planned.sample_id,
        category=planned.category,
        source=planned.source,
        row=planned.row,
        turn=planned.turn,
        k=planned.k,
        try_=planned.try_,
        prompt_hash=prompt.prompt_hash,
        mode=origin.mode,
        sampling_digest=origin.sampling_digest,
        input_ids=request.input_ids,
        output_ids=got.output_ids,
        finish=got.finish,
        matched_token=got.matched_token,
        matched_text=got.matched_text,
        finish_length=got.finish_length,
        requested_max_new_tokens=sampling.max_new_tokens,
        prompt_echo=got.prompt_echo,
        prompt_tokens=got.prompt_tokens,
        completion_tokens=got.completion_tokens,
        cached_tokens=got.cached_tokens,
        retractions=got.retractions,
        weight_version=got.weight_version,
        endpoint=routed.endpoint,
        launch=launch,
        attempt=origin.attempt,
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
