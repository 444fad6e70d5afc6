"""From "process started" to "answers": waiting for a server, and saying why it did not come.

A server that loads 600 GB of weights and compiles kernels is silent on HTTP for an hour. So the
time-out counts only while its log does not advance, and death is noticed at once.
"""

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from runner.errors import ServerError
from runner.servers.endpoint import Endpoint
from runner.servers.logs import find_cause, likely_cause, tail_text
from runner.servers.process import ServerProcess

HEALTH_TIMEOUT_S = 25.0
"""SGLang's /health is a one-token generation that it gives up on after 20 s."""
FIRST_PAUSE_S, LAST_PAUSE_S, PAUSE_GROWTH = 0.1, 1.0, 1.5
SHOWN_LINES = 12


class ServerDied(ServerError):
    """A server's process ended unasked. `reason` in one line, `cause` a key of `logs.CAUSES`.

    The cause is looked for in the log from `since_bytes` on: what a server said while it started
    is no reason for its death a day later.
    """

    def __init__(self, process: ServerProcess, *, during: str, since_bytes: int = 0) -> None:
        how = process.exited.result()
        text = tail_text(process.log_path, since_bytes=since_bytes)
        lines = process.log_tail(SHOWN_LINES)
        known = find_cause(text)
        advice = likely_cause(text, signal=how.signal)
        self.cause = known.key if known else ""
        self.reason = "; ".join(filter(None, [str(how), advice or (lines[-1] if lines else "")]))
        super().__init__(
            f"the server died while {during}",
            where=str(process.log_path),
            found="\n            ".join([str(how), *lines]),
            next_step=advice or "read the log",
        )


async def wait_until_ready(
    endpoint: Endpoint, process: ServerProcess, *, ready_timeout_s: float
) -> None:
    """Return once /health is 200. Raises ServerDied when the process ends, ServerError when its
    log has not advanced for `ready_timeout_s` and it is still not healthy."""
    log_bytes, quiet_since, pause_s = process.log_bytes(), time.monotonic(), FIRST_PAUSE_S
    async with health_session() as session:
        while not await _healthy_or_dead(session, endpoint, process):
            if process.exited.done():
                raise ServerDied(process, during="starting")
            if process.log_bytes() != log_bytes:
                log_bytes, quiet_since = process.log_bytes(), time.monotonic()
            if time.monotonic() - quiet_since >= ready_timeout_s:
                raise _never_ready(endpoint, process, ready_timeout_s)
            await asyncio.wait({process.exited}, timeout=pause_s)
            pause_s = min(pause_s * PAUSE_GROWTH, LAST_PAUSE_S)


def health_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HEALTH_TIMEOUT_S))


async def health_status(session: aiohttp.ClientSession, endpoint: Endpoint) -> int:
    """The HTTP status of /health; 0 when nothing answers."""
    try:
        async with session.get(f"{endpoint.url}/health", headers=endpoint.headers) as answer:
            return answer.status
    except (aiohttp.ClientError, TimeoutError, OSError):
        return 0


async def listens(endpoint: Endpoint) -> bool:
    """Whether anybody accepts a connection there. A busy server does, a dead one does not."""
    parts = urlsplit(endpoint.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _healthy_or_dead(
    session: aiohttp.ClientSession, endpoint: Endpoint, process: ServerProcess
) -> bool:
    """One probe, given up as soon as the process ends."""
    probe = asyncio.ensure_future(health_status(session, endpoint))
    either: set[asyncio.Future[Any]] = {probe, process.exited}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return not process.exited.done() and probe.done() and probe.result() == 200
    finally:
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)


def _never_ready(endpoint: Endpoint, process: ServerProcess, ready_timeout_s: float) -> ServerError:
    return ServerError(
        f"the server is not healthy, and its log has not advanced for {ready_timeout_s:g} s",
        where=f"{endpoint.url}/health, {process.log_path}",
        found="\n            ".join(process.log_tail(SHOWN_LINES)) or "an empty log",
        next_step=likely_cause(tail_text(process.log_path))
        or "read the log; if it only needs longer, raise server.ready_timeout_s",
    )
