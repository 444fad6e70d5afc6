"""A server that somebody else runs: reached by its URLs, never started, never stopped."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from runner.config import Server as ServerConfig
from runner.errors import ConfigError, ServerError
from runner.servers.endpoint import Endpoint, Lifetime, ModelFacts
from runner.servers.llamacpp_main import API_KEY_ENV
from runner.servers.ready import LAST_PAUSE_S, health_session, health_status

UNREACHABLE_AFTER_S = 10.0
"""An address that refuses connections for this long at the start is wrong, not slow. One that
answers "not ready" (503) is waited for, up to `ready_timeout_s`."""


class ExternalServer(Lifetime):
    """See `endpoint.Server`. The key, if one is needed, comes from the environment."""

    def __init__(
        self,
        config: ServerConfig,
        model_facts: ModelFacts,
        *,
        launches_dir: Path,
        seed: int,
        first_launch: int,
    ) -> None:
        self.kind = config.kind
        self.launch = first_launch - 1
        self.last_cause = ""
        self._config = config
        self._endpoints = parse_urls(config.urls, api_key=os.environ.get(API_KEY_ENV, ""))

    @property
    def endpoints(self) -> list[Endpoint]:
        return list(self._endpoints)

    @property
    def lowered(self) -> dict[str, Any]:
        return {}

    async def start(self) -> None:
        """Return when every URL answers. Raises ServerError naming those that do not."""
        timeout_s = self._config.ready_timeout_s
        async with health_session() as session:
            waits = [
                _wait(session, e, timeout_s=timeout_s, refused_s=UNREACHABLE_AFTER_S)
                for e in self._endpoints
            ]
            statuses = await asyncio.gather(*waits)
        bad = [
            f"{endpoint.url}: {_describe(status)}"
            for endpoint, status in zip(self._endpoints, statuses, strict=True)
            if not _answers(status)
        ]
        if bad:
            raise ServerError(
                f"{len(bad)} of {len(statuses)} server addresses do not answer",
                where="server.urls",
                found="\n            ".join(bad),
                next_step="check the addresses and that the servers run; /health must be 200",
            )

    async def stop(self) -> None:
        """Not ours to stop."""

    async def restart(self, reason: str) -> None:
        """Wait until one of the URLs answers again; the engine sets the others aside."""
        timeout_s = self._config.ready_timeout_s
        async with health_session() as session:
            waits = [
                asyncio.ensure_future(_wait(session, e, timeout_s=timeout_s, refused_s=timeout_s))
                for e in self._endpoints
            ]
            try:
                for next_done in asyncio.as_completed(waits):
                    if _answers(await next_done):
                        return
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
        raise ServerError(
            f"no server answered within {timeout_s:g} s",
            where="server.urls",
            found=reason,
            next_step="bring one of them back; the same command continues",
        )

    def alive(self) -> bool:
        return True

    def log_bytes(self) -> int:
        return 0

    async def died(self) -> str:
        """Never returns: whether somebody else's process lives cannot be seen from here."""
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def parse_urls(urls: list[str], *, api_key: str) -> list[Endpoint]:
    """Endpoints in the given order. Raises ConfigError for none, a bad one, or one given twice."""
    if not urls:
        raise ConfigError(
            "server=external needs the addresses of the running servers",
            where="server.urls",
            found="an empty list",
            next_step="set server.urls=[http://HOST:PORT]",
        )
    endpoints = [_parse_url(url, api_key=api_key) for url in urls]
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ConfigError(
            "an address is given twice, so its server would get a double share",
            where="server.urls",
            found=", ".join(names),
        )
    return endpoints


def _parse_url(url: str, *, api_key: str) -> Endpoint:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError(
            "this is not the address of a server",
            where="server.urls",
            found=url,
            allowed="http://HOST:PORT or https://HOST[:PORT][/PREFIX]",
        )
    if parts.username or parts.password:
        raise ConfigError(
            "an address must not hold a password",
            where="server.urls",
            found=f"credentials for {parts.hostname}",
            next_step=f"set the environment variable {API_KEY_ENV}",
        )
    bare = url.rstrip("/")
    return Endpoint(url=bare, api_key=api_key, name=bare.partition("//")[2])


def _answers(status: int) -> bool:
    """A router may have no /health, or guard it: any answer but a server error counts."""
    return 0 < status < 500


def _describe(status: int) -> str:
    return f"HTTP {status} from /health" if status else "no answer"


async def _wait(
    session: aiohttp.ClientSession, endpoint: Endpoint, *, timeout_s: float, refused_s: float
) -> int:
    """The last status of /health: one that counts as an answer, or what was there at the end."""
    began = answered = time.monotonic()
    while True:
        status = await health_status(session, endpoint)
        now = time.monotonic()
        answered = now if status else answered
        if _answers(status) or now - began >= timeout_s or now - answered >= refused_s:
            return status
        await asyncio.sleep(LAST_PAUSE_S)
