"""The controller of `client.concurrency: auto` against the simulated machine, in virtual time.

Thousands of requests take a fraction of a second, and always the same: for tests, and for finding
the best fixed number by trying all of them.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from benchmarks.batching import Batching, Job, Machine, copies, makespan_s
from runner.pacing import Pacing, Reading, decide


class Trace(msgspec.Struct, kw_only=True):
    """What happened. `numbers` are (virtual seconds, number in flight, why) at every change."""

    makespan_s: float = 0.0
    retractions: int = 0
    numbers: list[tuple[float, int, str]] = msgspec.field(default_factory=list)


def follow(
    jobs: Sequence[Job],
    machine: Machine,
    *,
    first: Pacing,
    interval_s: float,
    delay_s: float = 0.0,
    noise: float = 0.0,
    tells: frozenset[str] = frozenset({"queue", "usage"}),
    seed: int = 0,
    change: Callable[[Batching], None] = lambda _batching: None,
) -> Trace:
    """All jobs through the machine with the controller in charge."""
    batching, coming, rng = Batching(machine), iter(copies(jobs)), random.Random(seed)
    trace, state, due = Trace(), first, interval_s
    in_flight, finished, retracted = 0, 0, 0
    latencies: deque[float] = deque(maxlen=200)
    past: deque[tuple[float, Reading]] = deque()
    speed: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=40)
    more = True

    def noisy(value: float) -> float:
        return value * (1 + rng.uniform(-noise, noise))

    while more or not batching.idle:
        while more and in_flight < state.number:
            job = next(coming, None)
            more = job is not None
            if job is not None:
                batching.add(job)
                in_flight += 1
        if batching.idle:
            break
        for job in batching.step():
            in_flight -= 1
            finished += 1
            retracted += job.retractions
            latencies.append(job.finished_s - job.arrived_s)
        change(batching)
        now = batching.now_s
        speed.append((now, batching.tokens))
        (since, before), (until, after) = speed[0], speed[-1]
        past.append(
            (
                now,
                Reading(
                    at_s=now,
                    in_flight=0,
                    running=len(batching.running),
                    queued=len(batching.waiting),
                    usage=batching.usage,
                    tokens_per_s=(after - before) / (until - since),
                ),
            )
        )
        while len(past) > 1 and past[1][0] <= now - delay_s:
            past.popleft()
        if now < due:
            continue
        due = now + interval_s
        told = past[0][1]
        reading = Reading(
            at_s=now,
            in_flight=in_flight,
            running=round(noisy(told.running)) if "queue" in tells else -1,
            queued=round(noisy(told.queued)) if "queue" in tells else -1,
            usage=noisy(told.usage or 0.0) if "usage" in tells else None,
            tokens_per_s=noisy(told.tokens_per_s or 0.0),
            finished=finished,
            retracted=retracted,
            latency_s=median(latencies) if latencies else 0.0,
        )
        finished = retracted = 0
        before_number = state.number
        state = decide(state, reading)
        if state.number != before_number:
            trace.numbers.append((round(now, 2), state.number, state.why))
    trace.makespan_s, trace.retractions = batching.now_s, batching.retractions
    return trace


def best_fixed(
    jobs: Sequence[Job],
    machine: Machine,
    numbers: Sequence[int],
    change: Callable[[], Callable[[Batching], None]] = lambda: lambda _batching: None,
) -> tuple[int, float]:
    """(number, makespan in seconds) of the best fixed number, by trying all of them."""
    tried = {n: makespan_s(jobs, machine, in_flight=n, change=change()) for n in numbers}
    best = min(tried, key=lambda n: tried[n])
    return best, tried[best]
