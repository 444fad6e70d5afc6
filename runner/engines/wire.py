"""One HTTP session for one endpoint: bytes out, (status, bytes) in, network trouble as faults.

No total time-out by default: a long generation in a long queue is not an error. Redirects are not
followed and proxies from the environment are not used, so the key goes to the configured URL only;
it is kept in the session's headers and shown in no message or repr.
"""

from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from runner.engines.base import Endpoint, EngineFault, FaultKind

PROBE_TIMEOUT_S = 30.0
"""For questions about the server itself; SGLang's own health check may take 20 s."""

CONNECT_TIMEOUT_S = 30.0

HEALTHY = (200, 404)
"""Statuses of a health route that say "go on": the route is optional, so its absence is no news."""

KEEPALIVE_S = 2.0
"""Idle connections are dropped before uvicorn and llama.cpp drop theirs (5 s): a request sent into
a connection that is just being closed would look like a dead server."""


class Wire:
    """The connections to one endpoint. Opened at the first use, so that it may be made anywhere."""

    def __init__(
        self, endpoint: Endpoint, *, timeout_s: float | None, max_connections: int
    ) -> None:
        self.url = endpoint.url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if endpoint.api_key:
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._timeout_s = timeout_s
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"Wire({self.url!r})"

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """POST a JSON object. Raises EngineFault when no whole answer comes back."""
        return await self._exchange("POST", path, orjson.dumps(body), self._timeout_s)

    async def get(self, path: str) -> tuple[int, bytes]:
        """GET a route of the server itself. Raises EngineFault when no whole answer comes back."""
        return await self._exchange("GET", path, None, PROBE_TIMEOUT_S)

    async def get_object(self, *paths: str) -> dict[str, Any] | list[Any] | None:
        """The JSON of the first of `paths` that answers 200, or None: all of them are optional."""
        for path in paths:
            status, body = await self.get(path)
            parsed = parse_or_none(body) if status == 200 else None
            if isinstance(parsed, dict | list):
                return parsed
        return None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._opened().request(
                method, self.url + path, data=body, timeout=timeout, allow_redirects=False
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError) as trouble:  # TimeoutError is an OSError
            raise network_fault(trouble) from trouble

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # One connection more than requests, so that a probe never waits behind them. The
            # pending queue is ours to bound (the caller's concurrency), not the connector's.
            connector = aiohttp.TCPConnector(
                limit=self._max_connections + 1, keepalive_timeout=KEEPALIVE_S
            )
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._session


def network_fault(trouble: Exception) -> EngineFault:
    """What an exception of the HTTP client means for the request."""
    kind, reason = FaultKind.UNREACHABLE, "disconnected"
    if isinstance(trouble, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        reason = "connect_failed"
    elif isinstance(trouble, aiohttp.ClientPayloadError):
        reason = "cut_body"
    elif isinstance(trouble, TimeoutError):
        # Counted: a sample that is always too slow must not be sent for ever.
        kind, reason = FaultKind.UNUSABLE, "timeout"
    elif isinstance(trouble, aiohttp.ClientResponseError):
        kind, reason = FaultKind.UNUSABLE, "bad_http"
    return EngineFault(kind, reason, detail=f"{type(trouble).__name__}: {trouble}")


def parse_or_none(body: bytes) -> object:
    """The JSON in `body`, or None when there is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def parse_json(body: bytes) -> object:
    """The JSON in an answer with HTTP 200. Raises EngineFault when it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raw = body.decode("utf-8", "replace")
        raise EngineFault(
            FaultKind.UNUSABLE, "not_json", detail=f"not JSON: {error}", raw=raw
        ) from error
