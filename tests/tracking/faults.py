"""A server that fails on command, in a thread: the other side of the tests of harm.

`mode` is "down" (nothing listens), "500", "hang", "html" (200 with a page, as a proxy's login) or
"pass" (forwards to `upstream`, a real MLflow server). It can be changed at any time.
"""

import asyncio
import socket
import threading
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web


class FaultServer:
    def __init__(self, mode: str, *, upstream: str = "") -> None:
        self.mode = mode
        self.upstream = upstream
        self.requests = 0
        self.fail_paths = ""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults")
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        if self.mode != "down":
            self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def turn(self, mode: str) -> None:
        """Another fault from now on."""
        self.mode = mode
        self._do(self._stop() if mode == "down" else self._listen())

    def _do(self, coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        if self._runner is not None:
            return
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # an answer that hangs

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests += 1
        if self.mode == "500" or (self.fail_paths and self.fail_paths in request.path):
            return web.Response(status=500, text="it broke")
        if self.mode == "html":
            return web.Response(text="<html>please log in", content_type="text/html")
        if self.mode == "hang":
            await asyncio.sleep(600)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                self.upstream + request.path_qs,
                data=await request.read(),
                headers={"Content-Type": request.headers.get("Content-Type", "")},
            ) as answer,
        ):
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                headers={"Content-Type": answer.headers.get("Content-Type", "text/plain")},
            )
