"""Continuous batching in virtual time: what a server with slots, a KV cache and costs would do.

One `step` admits what fits (first come, first served), prefills it, gives every running request one
token, and takes back the newest ones when their tokens no longer fit (a retraction: the request
waits again, and its prompt and tokens are prefilled once more). Pure and deterministic, so that
thousands of requests take milliseconds; `benchmarks.simulated_server` plays it in real time.

It is no model of a certain GPU. Its shape is: a step costs a fixed part and a part for each running
request, prefill costs by token, beyond `graph_slots` each further request costs `slow_factor` times
as much (a batch that no CUDA graph was captured for), and an over-full cache costs its work twice.
"""

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server: times in seconds, sizes in tokens. `headroom` is held back for each running
    request when another one is admitted. `graph_slots` 0: no limit."""

    slots: int = 32
    kv_tokens: int = 1 << 30
    step_s: float = 0.006
    per_request_s: float = 0.00006
    prefill_token_s: float = 0.00001
    headroom: int = 0
    graph_slots: int = 0
    slow_factor: float = 8.0

    def decode_s(self, running: int) -> float:
        """One step with so many running requests."""
        beyond = max(0, running - self.graph_slots) if self.graph_slots else 0
        return self.step_s + self.per_request_s * (running + beyond * (self.slow_factor - 1))


class Job(msgspec.Struct):
    """One request on the machine."""

    name: str
    prompt_tokens: int
    output_tokens: int
    arrived_s: float = 0.0
    done: int = 0
    retractions: int = 0
    first_token_s: float = -1.0
    finished_s: float = -1.0

    @property
    def held(self) -> int:
        return self.prompt_tokens + self.done


class Batching:
    """The machine at work. `now_s` moves by steps only."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now_s = 0.0
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.used = 0
        self.tokens = 0
        self.retractions = 0
        self.finished = 0
        self.busy_s = 0.0

    def add(self, job: Job) -> None:
        job.arrived_s = self.now_s
        self.waiting.append(job)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def usage(self) -> float:
        return self.used / self.machine.kv_tokens

    def step(self) -> list[Job]:
        """Admit, prefill, decode one token each, retract; gives what finished at `now_s`."""
        prefilled = self._admit()
        duration = self.machine.decode_s(len(self.running))
        duration += prefilled * self.machine.prefill_token_s
        self.now_s += duration
        self.busy_s += duration * len(self.running)
        for job in self.running:
            job.done += 1
            if job.first_token_s < 0:
                job.first_token_s = self.now_s
        self.used += len(self.running)
        self.tokens += len(self.running)
        ended = [job for job in self.running if job.done >= job.output_tokens]
        if ended:
            self.running = [job for job in self.running if job.done < job.output_tokens]
        for job in ended:
            self.used -= job.held
            job.finished_s = self.now_s
        self.finished += len(ended)
        self._retract()
        return ended

    def _admit(self) -> int:
        prefilled = 0
        machine = self.machine
        while self.waiting and len(self.running) < machine.slots:
            job = self.waiting[0]
            room = machine.kv_tokens - self.used - machine.headroom * len(self.running)
            if self.running and job.held + 1 > room:
                break
            self.waiting.popleft()
            self.running.append(job)
            self.used += job.held
            prefilled += job.held
        return prefilled

    def _retract(self) -> None:
        while self.used > self.machine.kv_tokens and len(self.running) > 1:
            job = self.running.pop()
            self.used -= job.held
            job.retractions += 1
            self.retractions += 1
            self.waiting.appendleft(job)


def copies(jobs: Iterable[Job]) -> list[Job]:
    return [Job(job.name, job.prompt_tokens, job.output_tokens) for job in jobs]


def makespan_s(
    jobs: Sequence[Job],
    machine: Machine,
    *,
    in_flight: int | None = None,
    change: Callable[[Batching], None] = lambda _batching: None,
) -> float:
    """How long all jobs take in their order with a client that always keeps `in_flight` of them
    there (None: all at once, which is list scheduling in arrival order). `change` is called after
    every step."""
    batching, coming = Batching(machine), iter(copies(jobs))
    for job in itertools.islice(coming, in_flight):
        batching.add(job)
    while not batching.idle:
        for _ in batching.step():
            if (job := next(coming, None)) is not None:
                batching.add(job)
        change(batching)
    return batching.now_s


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Output tokens of one kind of prompt: log-normal, so with a heavy tail."""

    median: float = 40.0
    sigma: float = 1.0
    most: int = 2000

    def draw(self, rng: random.Random) -> int:
        value = self.median * rng.lognormvariate(0.0, self.sigma)
        return max(2, min(self.most, round(value)))
