"""What asking costs the runner itself, beside a bare loop and a client of the usual kind.

    python -m benchmarks.client [--requests 3000] [--tokens 512] [--prompt 256] [--concurrency ...]

A stub in a process of its own answers every request at once with the same ids, so what is measured
is the client: CPU seconds of this process (all its threads), for a million output tokens and for a
thousand requests. Each line is a process of its own, the best of `--rounds`.

    bare       aiohttp + orjson: post, parse, append the answer's ids to a plain file
    threads    a pool of threads with http.client and json, doing the same (64 threads at most)
    client     our engine pool: the same requests, every answer checked against the contract
    shards     client, and each sample into zstd shards, synced
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import orjson

from runner.engines.pool import EnginePool, open_pool
from runner.generate import Origin, Request, sample_of
from runner.ledger import sample_keying
from runner.records import OwedSample, Prompt, SamplingParams
from runner.servers.endpoint import Endpoint
from runner.shards import ShardWriter

THREADS = 64
"""A thread for each of 1,024 requests in flight is more than such clients use."""
SAMPLING = SamplingParams(
    max_new_tokens=4096,
    temperature=1.0,
    top_p=0.95,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    repetition_penalty=1.0,
    min_new_tokens=0,
    ignore_eos=False,
    stop_token_ids=[2],
)


class Load(NamedTuple):
    """One measurement: how much, and where to."""

    port: int
    requests: int
    concurrency: int
    prompt: list[int]
    folder: str


# --- the stub


class Stub(asyncio.Protocol):
    """HTTP as far as these clients need it: whole requests with a Content-Length."""

    prompt: list[int] = []
    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while True:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            length = int(re.search(rb"(?i)content-length: *(\d+)", self.data[:end])[1])
            if len(self.data) < end + 4 + length:
                return
            body, self.data = self.data[: end + 4 + length], self.data[end + 4 + length :]
            rid = re.search(rb'"rid": ?"([^"]+)"', body)[1]
            answer = self.answer.replace(b"THE-RID", rid)
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            self.transport.write(head % len(answer) + answer)


def serve(ports: Any, prompt: list[int], tokens: int) -> None:
    """The stub's process."""
    output = [1000 + n % 30000 for n in range(tokens - 1)] + [2]
    Stub.answer = orjson.dumps(
        {
            "text": "x" * 4 * tokens,
            "output_ids": output,
            "prompt_token_ids": prompt,
            "meta_info": {
                "id": "THE-RID",
                "finish_reason": {"type": "stop", "matched": 2},
                "prompt_tokens": len(prompt),
                "completion_tokens": tokens,
                "cached_tokens": 0,
                "weight_version": "default",
            },
        }
    )

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=2048)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def stub(prompt: list[int], tokens: int) -> Iterator[int]:
    """The port of a stub."""
    ports: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve, args=(ports, prompt, tokens), daemon=True)
    process.start()
    try:
        yield ports.get(timeout=30)
    finally:
        process.kill()
        process.join()


# --- the clients


def body_of(load: Load, number: int) -> dict[str, Any]:
    return {
        "rid": f"B4-{number}-0.0123456789ab",
        "input_ids": load.prompt,
        "sampling_params": {**msgspec.to_builtins(SAMPLING), "n": 1},
        "stream": False,
        "return_prompt_token_ids": True,
    }


async def bare(load: Load) -> None:
    numbers = iter(range(load.requests))
    connector = aiohttp.TCPConnector(limit=load.concurrency)
    url = f"http://127.0.0.1:{load.port}/generate"
    with (Path(load.folder) / "bare.jsonl").open("wb") as file:
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work() -> None:
                for number in numbers:
                    async with session.post(url, data=orjson.dumps(body_of(load, number))) as got:
                        answer = orjson.loads(await got.read())
                    kept = {"input_ids": load.prompt, "output_ids": answer["output_ids"]}
                    file.write(orjson.dumps(kept) + b"\n")

            await asyncio.gather(*(work() for _ in range(load.concurrency)))


def threads(load: Load) -> None:
    local, lock = threading.local(), threading.Lock()
    with (Path(load.folder) / "threads.jsonl").open("w") as file:

        def work(number: int) -> None:
            if not hasattr(local, "connection"):
                local.connection = http.client.HTTPConnection("127.0.0.1", load.port)
            headers = {"Content-Type": "application/json"}
            body = json.dumps(body_of(load, number))
            local.connection.request("POST", "/generate", body, headers)
            answer = json.loads(local.connection.getresponse().read())
            line = json.dumps({"input_ids": load.prompt, "output_ids": answer["output_ids"]})
            with lock:
                file.write(line + "\n")

        with ThreadPoolExecutor(min(load.concurrency, THREADS)) as pool:
            for _ in pool.map(work, range(load.requests)):
                pass


async def client(load: Load) -> None:
    await ours(load, lambda _number, _routed: None)


async def shards(load: Load) -> None:
    origin = Origin(run_id="bench", mode="thinking", sampling_digest="0" * 16, attempt=1)
    prompt = Prompt(prompt_hash="0" * 32, category="B4", row=0, messages=[])
    with ShardWriter(Path(load.folder) / "samples", keying=sample_keying) as writer:

        def keep(number: int, routed: Any) -> None:
            planned = OwedSample(
                sample_id=f"B4-{number}-0",
                prompt=0,
                prompt_hash=f"{number:032x}",
                category="B4",
                row=number,
                k=0,
                prompt_tokens=len(load.prompt),
            )
            request = Request(planned, prompt, load.prompt)
            sample = sample_of(request, routed, origin, SAMPLING, 1, 0.0, 0.1)
            writer.put(msgspec.json.encode(sample))

        await ours(load, keep)


async def ours(load: Load, keep: Callable[[int, Any], None]) -> None:
    numbers = iter(range(load.requests))
    pool: EnginePool = open_pool(
        "sglang",
        [Endpoint(url=f"http://127.0.0.1:{load.port}", name="stub")],
        vocab_size=32768,
        max_connections=load.concurrency,
    )

    async def work() -> None:
        for number in numbers:
            rid = f"B4-{number}-0.0123456789ab"
            keep(number, await pool.send(rid, load.prompt, SAMPLING))

    try:
        await asyncio.gather(*(work() for _ in range(load.concurrency)))
    finally:
        await pool.close()


CLIENTS: dict[str, Callable[[Load], Any]] = {
    "bare": bare,
    "threads": threads,
    "client": client,
    "shards": shards,
}


def measured(results: Any, name: str, load: Load) -> None:
    """One measurement in a process of its own: CPU seconds of all its threads."""
    start = time.process_time()
    work = CLIENTS[name](load)
    if work is not None:
        asyncio.run(work)
    results.put(time.process_time() - start)


def cpu_s(name: str, load: Load) -> float:
    results: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=measured, args=(results, name, load))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{name} ended with {process.exitcode}")
    return float(results.get())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", default="64,256,1024")
    options = parser.parse_args()
    prompt = [1000 + n % 20000 for n in range(options.prompt)]
    print("in flight  client    CPU s / M tokens  CPU s / 1000 requests  times bare")
    with stub(prompt, options.tokens) as port:
        for concurrency in map(int, options.concurrency.split(",")):
            base = 0.0
            for name in CLIENTS:
                best = sys.float_info.max
                for _ in range(options.rounds):
                    with tempfile.TemporaryDirectory() as folder:
                        load = Load(port, options.requests, concurrency, prompt, folder)
                        best = min(best, cpu_s(name, load))
                base = base or best
                per_token = best / (options.requests * options.tokens) * 1e6
                per_request = best / options.requests * 1e3
                print(
                    f"{concurrency:>9}  {name:<8}  {per_token:>16.2f}  {per_request:>21.3f}"
                    f"  {best / base:>10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
