"""The clients that people write instead, each with everything rendered beforehand.

All take the same requests in the same order and keep at most `in_flight` of them at the server.
What comes back is parsed and thrown away: none of them checks, judges or stores anything.
"""

import asyncio
import http.client
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import aiohttp
import orjson


class Asked(NamedTuple):
    """One request as it goes out."""

    rid: str
    input_ids: list[int]

    def body(self) -> bytes:
        sampling = {"max_new_tokens": 100_000, "temperature": 1.0}
        return orjson.dumps(
            {"rid": self.rid, "input_ids": self.input_ids, "sampling_params": sampling}
        )


async def bare_loop(url: str, requests: Sequence[Asked], in_flight: int) -> None:
    """One aiohttp session and as many workers as requests may be in flight."""
    coming = iter(requests)
    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(_worker(session, url, coming) for _ in range(in_flight)))


async def _worker(session: aiohttp.ClientSession, url: str, coming) -> None:
    for asked in coming:
        async with session.post(f"{url}/generate", data=asked.body()) as answer:
            orjson.loads(await answer.read())


async def batches(url: str, requests: Sequence[Asked], in_flight: int) -> None:
    """A barrier after every batch: the next one is sent when all of the last one are there."""
    async with aiohttp.ClientSession() as session:
        for begin in range(0, len(requests), in_flight):
            batch = requests[begin : begin + in_flight]
            await asyncio.gather(*(_worker(session, url, iter([asked])) for asked in batch))


def thread_pool(url: str, requests: Sequence[Asked], in_flight: int) -> None:
    """A pool of threads, one connection each."""
    host = url.removeprefix("http://")
    local = threading.local()

    def ask(asked: Asked) -> None:
        connection = getattr(local, "connection", None) or http.client.HTTPConnection(host)
        local.connection = connection
        connection.request("POST", "/generate", body=asked.body())
        orjson.loads(connection.getresponse().read())

    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(ask, requests))
