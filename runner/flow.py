"""How much is in flight, and what it brings: the permits of the senders, and the meter beside them.

A fixed `client.concurrency` is that many permits. With `auto` a steering task looks at the server
every few seconds, decides (runner.pacing), sets the permits, and writes each change down.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from runner.config import Client
from runner.engines.base import ServerLoad
from runner.meter import Meter
from runner.pacing import Pacing, Reading, decide
from runner.permits import Permits
from runner.records import NOT_TOLD, Record
from runner.rundir import append_line

AHEAD_MOST = 512
"""Requests rendered ahead, however many may be in flight: enough for any burst of answers."""


PACING_FILE = "pacing.jsonl"
"""In the attempt's folder: every change of the number in flight, and why."""


def is_auto(client: Client) -> bool:
    """Whether the number in flight is to be found."""
    return client.concurrency == "auto"


def most_in_flight(client: Client) -> int:
    """What the number in flight may become."""
    return client.auto.most if is_auto(client) else int(client.concurrency)


def first_in_flight(client: Client) -> int:
    """The number in flight at the start."""
    most = most_in_flight(client)
    return min(client.auto.first, most) if is_auto(client) else most


class Flow:
    """Permits and meter of one attempt."""

    def __init__(self, client: Client) -> None:
        self._client = client
        most = most_in_flight(client)
        self.permits = Permits(first_in_flight(client), most=most)
        self.meter = Meter()
        self.ahead = min(2 * most, AHEAD_MOST)
        """Requests that wait rendered."""

    def background(
        self,
        load: Callable[[], Awaitable[ServerLoad | None]],
        *,
        folder: Path,
        say: Callable[[str], None],
    ) -> list[Coroutine[Any, Any, None]]:
        """What must run beside the senders. `load` asks the server; None: it does not tell."""
        if not is_auto(self._client):
            return []
        log, interval_s = folder / PACING_FILE, self._client.auto.interval_s
        steering = Steering(self.permits, self.meter, load, log=log, say=say)
        return [steering.steer(interval_s)]


class Look(Record, frozen=True, kw_only=True):
    """A line of the attempt's pacing.jsonl: a change of the number, and what was seen."""

    at: float
    number: int
    why: str
    seen: Reading


class Steering:
    """Sets the permits by what the server and the meter show."""

    def __init__(
        self,
        permits: Permits,
        meter: Meter,
        load: Callable[[], Awaitable[ServerLoad | None]],
        *,
        log: Path,
        say: Callable[[str], None],
    ) -> None:
        self._permits, self._meter, self._load = permits, meter, load
        self._log, self._say = log, say
        self._state = Pacing(number=permits.number, most=permits.most)
        self._answers = self._retractions = self._tokens = 0
        self._looked_s = time.monotonic()
        self._said = permits.number

    async def steer(self, interval_s: float) -> None:
        """A look every `interval_s`, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            self._take(self._read(await self._load()))

    def _take(self, reading: Reading) -> None:
        before, self._state = self._state.number, decide(self._state, reading)
        number, why = self._state.number, self._state.why
        if number == before:
            return
        self._permits.set(number)
        append_line(self._log, Look(at=time.time(), number=number, why=why, seen=reading))
        if not 2 / 3 < number / self._said < 3 / 2:
            self._said = number
            self._say(f"in flight: {number} ({why})")

    def _read(self, load: ServerLoad | None) -> Reading:
        load = load or ServerLoad()
        totals, now = self._meter.totals, time.monotonic()
        tokens_per_s = load.output_tokens_per_s
        if tokens_per_s is None:
            tokens_per_s = (totals.output_tokens - self._tokens) / max(now - self._looked_s, 1e-3)
        reading = Reading(
            at_s=now,
            in_flight=self._meter.in_flight,
            running=load.running,
            queued=load.queued if load.running != NOT_TOLD else NOT_TOLD,
            usage=load.token_usage,
            tokens_per_s=tokens_per_s,
            finished=totals.answers - self._answers,
            retracted=totals.retractions - self._retractions,
            latency_s=self._meter.latency_s,
        )
        self._answers, self._retractions = totals.answers, totals.retractions
        self._tokens, self._looked_s = totals.output_tokens, now
        return reading
