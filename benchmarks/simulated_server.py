"""A loopback server that speaks SGLang's protocol and batches as `benchmarks.batching` says.

    python -m benchmarks.simulated_server --port 0 --simulation '{"machine": {"slots": 32}}'

It is `tests.fake_sglang` with its answering replaced: a request waits for a slot, is prefilled,
grows token by token in real time, may be retracted, and is answered with the number of tokens that
the seed and its sample id (the beginning of its rid, and of that the category) give it. When this
process is late, virtual time catches up: a busy machine does not make the simulated server slower.

`/v1/loads` tells what was true `load_delay_s` ago, with `load_noise` of random error. `changes`
replace parts of the machine after so many answers. GET /fake/simulation tells what it measured and
every job in the order of arrival: the bound of a run can be computed from it.

The flags of the real server that a tuning sweep turns are understood too: see `tuned`.
"""

import argparse
import asyncio
import random
import signal
import sys
import time
from collections import deque
from typing import Any, Self

import msgspec
import orjson
from aiohttp import web

from benchmarks.batching import Batching, Job, Lengths, Machine
from tests.engines.fake_answers import (
    ERROR_BODIES,
    Scenario,
    answer_for,
    k_of,
    output_for,
    rng_for,
)
from tests.fake_sglang import LOADS, SERVER_INFO, FakeSglang, reply

SPEED_STEPS = 40
"""Steps over which the server averages its own speed (SGLang's decode_log_interval)."""
ROOMY = 0.94
"""The largest mem-fraction-static that the simulated GPU can hold."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """After so many answers the machine is another one, in these fields."""

    after: int
    machine: dict[str, Any]


class Simulation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is simulated. `lengths` by category; "" is for every other one."""

    seed: int = 0
    machine: Machine = Machine()
    lengths: dict[str, Lengths] = msgspec.field(default_factory=lambda: {"": Lengths()})
    load_delay_s: float = 0.0
    load_noise: float = 0.0
    changes: list[Change] = []

    def output_tokens(self, rid: str) -> int:
        """How long the answer to this sample (a rid is SAMPLE.ANYTHING) is, whoever asks for it."""
        sample = rid.rpartition(".")[0] or rid
        category = sample.partition("-")[0].partition(".")[0]
        lengths = self.lengths.get(category) or self.lengths.get("") or Lengths()
        return lengths.draw(rng_for(self.seed, "length", sample))

    def counts(self, rid: str) -> bool:
        """Whether this is a sample (of a category), and no question whether the server works."""
        return "" in self.lengths or rid.partition("-")[0].partition(".")[0] in self.lengths


VOCABULARY = Scenario(
    vocab_size=1280, vocab_assigned=1255, stop_id=1262, think_close_id=1264, context_length=1 << 20
)
"""The bundled model's ids, so that the runner's checks are passed."""


class SimulatedServer(FakeSglang):
    """Entered as an async context manager."""

    def __init__(
        self, simulation: Simulation, *, scenario: Scenario = VOCABULARY, port: int = 0
    ) -> None:
        super().__init__(scenario, port=port)
        self.simulation = simulation
        self.batching = Batching(simulation.machine)
        self._futures: dict[str, asyncio.Future[Job]] = {}
        self._arrived = asyncio.Event()
        self._began = 0.0
        self._jobs: list[tuple[str, int, int]] = []
        self._first_at = self._last_at = 0.0
        self._changes = sorted(simulation.changes, key=lambda c: c.after)
        self._noise = random.Random(simulation.seed)
        self._told: deque[tuple[float, dict[str, float]]] = deque()
        self._speed: deque[tuple[float, int]] = deque(maxlen=SPEED_STEPS)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._playing = asyncio.create_task(self._play())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._playing.cancel()
        await super().__aexit__(*error)

    def _routes(self) -> list[web.RouteDef]:
        return [*super()._routes(), web.get("/fake/simulation", self._measured)]

    async def _play(self) -> None:
        """Steps in real time; those that are late are made up for."""
        while True:
            if self.batching.idle:
                self._arrived.clear()
                await self._arrived.wait()
                self._began = time.monotonic() - self.batching.now_s
            ended = self.batching.step()
            late = time.monotonic() - (self._began + self.batching.now_s)
            await asyncio.sleep(max(0.0, -late))
            self._note_load()
            for job in ended:
                self._last_at = time.monotonic()
                self._futures.pop(job.name).set_result(job)
            while self._changes and self.batching.finished >= self._changes[0].after:
                fields = self._changes.pop(0).machine
                self.batching.machine = msgspec.structs.replace(self.batching.machine, **fields)

    async def _answer(
        self, request: web.Request, rid: str, body: dict[str, Any], kind: str
    ) -> web.StreamResponse:
        sampling = body.get("sampling_params") or {}
        ids = body["input_ids"]
        tokens = self.simulation.output_tokens(rid)
        sized = msgspec.structs.replace(self.scenario, min_output=tokens, max_output=tokens)
        output = output_for(sized, ids, k_of(rid), sampling)
        job = Job(rid, len(ids), len(output[0]))
        if job.held + job.output_tokens > self.batching.machine.kv_tokens:
            return reply(ERROR_BODIES["error_object"], status=400)
        future = self._futures[rid] = asyncio.get_running_loop().create_future()
        if self.simulation.counts(rid):
            self._first_at = self._first_at or time.monotonic()
            self._jobs.append((rid, job.prompt_tokens, job.output_tokens))
        self.batching.add(job)
        self._arrived.set()
        await future
        answer = answer_for(rid, ids, output)
        answer["meta_info"] |= {
            "num_retractions": job.retractions,
            "first_token_latency": job.first_token_s - job.arrived_s,
            "e2e_latency": job.finished_s - job.arrived_s,
        }
        if not body.get("return_prompt_token_ids"):
            del answer["prompt_token_ids"]
        self.stats["answered"] += 1
        self.stats["output_tokens"] += len(output[0])
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    def _note_load(self) -> None:
        batching, now = self.batching, time.monotonic()
        self._speed.append((batching.now_s, batching.tokens))
        (since, tokens), (until, more) = self._speed[0], self._speed[-1]
        noisy = {
            "num_running_reqs": len(batching.running),
            "num_waiting_reqs": len(batching.waiting),
            "num_used_tokens": batching.used,
            "token_usage": batching.usage,
            "gen_throughput": (more - tokens) / (until - since) if until > since else 0.0,
        }
        self._told.append((now, noisy))
        while len(self._told) > 1 and self._told[1][0] <= now - self.simulation.load_delay_s:
            self._told.popleft()

    async def _loads(self, _: web.Request) -> web.Response:
        told: dict[str, float] = {}
        for name, value in (self._told[0][1] if self._told else {}).items():
            noise = 1 + self._noise.uniform(-1, 1) * self.simulation.load_noise
            told[name] = round(value * noise) if name.startswith("num_") else value * noise
        rank = {**LOADS["loads"][0], **told, "max_running_requests": self.batching.machine.slots}
        return reply({**LOADS, "loads": [rank]})

    async def _server_info(self, _: web.Request) -> web.Response:
        told = {"model_path": self.scenario.model, "version": self.scenario.version}
        kv = {"max_total_num_tokens": self.batching.machine.kv_tokens, "max_req_input_len": 1 << 20}
        return reply({**SERVER_INFO, **told, **kv})

    async def _measured(self, _: web.Request) -> web.Response:
        batching = self.batching
        return reply(
            {
                "makespan_s": self._last_at - self._first_at,
                "mean_running": batching.busy_s / batching.now_s if batching.now_s else 0.0,
                "retractions": batching.retractions,
                "answered": batching.finished,
                "jobs": self._jobs,
            }
        )


def tuned(machine: Machine, flags: argparse.Namespace) -> Machine:
    """The machine as the server's flags make it.

    mem-fraction-static gives the cache its size, max-running-requests the slots,
    schedule-conservativeness what is held back, chunked-prefill-size the price of prefill: small
    chunks are read less efficiently.
    """
    share = flags.mem_fraction_static / 0.88
    return msgspec.structs.replace(
        machine,
        slots=flags.max_running_requests or machine.slots,
        kv_tokens=min(1 << 40, round(machine.kv_tokens * share)),
        headroom=round(machine.headroom * flags.schedule_conservativeness),
        prefill_token_s=machine.prefill_token_s * (1 + 1024 / flags.chunked_prefill_size),
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(allow_abbrev=False)
    made.add_argument("--port", type=int, default=0, help="0 takes a free one")
    made.add_argument("--simulation", default="{}", help="JSON")
    made.add_argument("--model-path", default="", help="ignored")
    made.add_argument("--host", default="", help="ignored")
    made.add_argument("--random-seed", default="", help="ignored")
    made.add_argument("--mem-fraction-static", type=float, default=0.88)
    made.add_argument("--max-running-requests", type=int, default=0)
    made.add_argument("--schedule-conservativeness", type=float, default=1.0)
    made.add_argument("--chunked-prefill-size", type=int, default=8192)
    return made


async def serve(simulation: Simulation, port: int) -> None:
    """Serve until SIGTERM."""
    async with SimulatedServer(simulation, port=port) as server:
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        print(server.port, flush=True)
        print("The server is fired up and ready to roll!", file=sys.stderr, flush=True)
        await ended.wait()


def main() -> None:
    """A flag that does not fit the simulated GPU ends as it does on a real one."""
    flags = parser().parse_args()
    if flags.mem_fraction_static > ROOMY:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    simulation = msgspec.json.decode(flags.simulation, type=Simulation)
    machine = tuned(simulation.machine, flags)
    asyncio.run(serve(msgspec.structs.replace(simulation, machine=machine), flags.port))


if __name__ == "__main__":
    main()
