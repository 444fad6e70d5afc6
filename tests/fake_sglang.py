"""A real loopback HTTP server that speaks SGLang's native API and fails on command.

    python -m tests.fake_sglang --port 0 --scenario '{"seed": 1, "faults": [{"kind": "abort_200",
        "rate": 0.1}, {"kind": "die", "at": [50]}]}'

prints its port on one line, then serves until SIGTERM (drains, exit 0) or until a fault kills it
(SIGKILL to itself, as the real one dies). In a test: `async with FakeSglang(scenario) as fake:`;
there a death closes the port and every connection instead, and `revive` brings it back.

Routes: /generate /health /health_generate /ready /model_info /server_info (and get_*) /v1/models
/v1/loads /abort_request /flush_cache; GET /fake/stats tells what it did, POST /fake/faults replaces
its faults. Kinds of faults: those of `fake_answers` (inside an answer, and the four error shapes),
and `slow`, `hang`, `die`, `busy`, `rate_limited`, `close_early`, `reset_in_body`, `truncated_json`,
`html_error`, `not_http`. It never streams, has no tokenizer, and its speed says nothing.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson
from aiohttp import web

from tests.engines.fake_answers import (
    ANSWER_FAULTS,
    BROKEN,
    ERROR_BODIES,
    OWN_STATUS,
    Fault,
    Scenario,
    answer_for,
    k_of,
    output_for,
    recorded,
    refusal,
    spoiled,
)

OPEN_ROUTES = ("/health", "/health_generate", "/fake/stats", "/fake/faults")
"""What needs no key: the real health routes stay open too."""

UNAUTHORIZED = recorded("apikey_missing_generate")["body"]
SERVER_INFO, MODEL_INFO, MODELS, LOADS = (
    recorded(name)["body"]
    for name in ("get_server_info", "get_model_info", "get_v1_models", "get_v1_loads")
)

FAULTS = BROKEN | set(ANSWER_FAULTS) | set(ERROR_BODIES)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply(body: object, *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


class FakeSglang:
    """One fake server on a loopback port of its own. Entered as an async context manager."""

    def __init__(self, scenario: Scenario | None = None, *, port: int = 0, real_death=False):
        self.scenario = scenario or Scenario()
        self.faults = checked(self.scenario.faults)
        self.port = port
        self.draining = False
        self.stats: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.rids: Counter[str] = Counter()
        self._real_death = real_death
        self._started_at = time.monotonic()
        self._running: dict[str, asyncio.Event] = {}
        self._waiting = 0
        most = self.scenario.max_running
        self._slots = asyncio.Semaphore(most if most > 0 else 1 << 30)
        self._handling: dict[asyncio.Task[None], asyncio.Transport] = {}
        self._deaths: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_key(self) -> str:
        return self.scenario.api_key

    async def __aenter__(self) -> Self:
        await self.revive()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
        await asyncio.gather(*self._deaths)

    async def revive(self) -> None:
        """Listen (again), on the same port once there is one."""
        app = web.Application(middlewares=[self._gate], client_max_size=1 << 30)
        app.add_routes(self._routes())
        self._runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """Stop listening and cut every connection, in the middle of whatever it was doing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for task, transport in list(self._handling.items()):
            transport.abort()
            task.cancel()
        await runner.cleanup()

    async def drained(self) -> None:
        """Wait until nothing is in flight; new requests are still taken, as by the real one."""
        self.draining = True
        while self._running or self._waiting:
            await asyncio.sleep(0.02)

    def _routes(self) -> list[web.RouteDef]:
        get = {
            "/health": self._health,
            "/health_generate": self._health,
            "/ready": self._health,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/v1/models": self._models,
            "/v1/loads": self._loads,
            "/flush_cache": self._flush_cache,
            "/fake/stats": self._stats,
        }
        post = {
            "/generate": self._generate,
            "/abort_request": self._abort_request,
            "/flush_cache": self._flush_cache,
            "/fake/faults": self._set_faults,
        }
        gone = self.scenario.missing_routes
        return [web.get(p, h) for p, h in get.items() if p not in gone] + [
            web.post(p, h) for p, h in post.items() if p not in gone
        ]

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = self.scenario.api_key
        task = asyncio.current_task()
        self._handling[task] = request.transport
        try:
            offered = request.headers.get("Authorization")
            if key and request.path not in OPEN_ROUTES and offered != f"Bearer {key}":
                self.stats["unauthorized"] += 1
                return reply(UNAUTHORIZED, status=401)
            return await handler(request)
        except web.HTTPException as error:  # 404 and 405, in the real one's shape
            return reply({"detail": error.reason}, status=error.status)
        finally:
            del self._handling[task]

    # --- the server about itself

    async def _health(self, _: web.Request) -> web.Response:
        self.stats["health"] += 1
        starting = time.monotonic() - self._started_at < self.scenario.ready_after_s
        return web.Response(status=503 if starting or self.draining else 200)

    async def _model_info(self, _: web.Request) -> web.Response:
        return reply({**MODEL_INFO, "model_path": self.scenario.model})

    async def _server_info(self, _: web.Request) -> web.Response:
        told = {
            "model_path": self.scenario.model,
            "version": self.scenario.version,
            "api_key": self.scenario.api_key or None,
            "launch_command": f"--model-path x --api-key {self.scenario.api_key or 'none'}",
            "max_total_num_tokens": self.scenario.kv_tokens,
            "max_req_input_len": self.scenario.max_input_tokens,
        }
        return reply({**SERVER_INFO, **told})

    async def _models(self, _: web.Request) -> web.Response:
        row = {**MODELS["data"][0], "max_model_len": self.scenario.context_length}
        return reply({**MODELS, "data": [row]})

    async def _loads(self, _: web.Request) -> web.Response:
        told = {
            "num_running_reqs": len(self._running),
            "num_waiting_reqs": self._waiting,
            "num_used_tokens": self.stats["output_tokens"],
        }
        return reply({**LOADS, "loads": [{**LOADS["loads"][0], **told}]})

    async def _flush_cache(self, _: web.Request) -> web.Response:
        if self._running:
            return web.Response(text="Flush cache failed.\n", status=400)
        self.stats["flushes"] += 1
        return web.Response(text="Cache flushed.\n")

    async def _abort_request(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read() or b"{}")
        named = self._running if body.get("abort_all") else {body.get("rid"): None}
        for rid in list(named):
            if rid in self._running:
                self._running[rid].set()
        return web.Response()

    async def _stats(self, _: web.Request) -> web.Response:
        told = {"running": len(self._running), "faults": self.struck, "rids": len(self.rids)}
        return reply({**self.stats, **told})

    async def _set_faults(self, request: web.Request) -> web.Response:
        self.faults = checked(msgspec.json.decode(await request.read(), type=list[Fault]))
        return web.Response()

    # --- generation

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        self.stats["requests"] += 1
        number = self.stats["requests"]
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return reply({"object": "error", "message": "1 validation error"}, status=400)
        ids = body.get("input_ids")
        if not isinstance(ids, list) or not all(type(value) is int for value in ids):
            return reply(
                {"object": "error", "message": "1 validation error: input_ids"}, status=400
            )
        rid = body.get("rid") or f"fake-{number}"
        refused = refusal(self.scenario, body)
        if rid in self._running:
            refused = {"error": {"message": f"Duplicate request ID detected: {rid}"}}
        if refused:
            self.stats["refused"] += 1
            return reply(refused, status=400)
        if not all(0 <= value < self.scenario.vocab_size for value in ids):
            self.stats["bad_ids"] += 1
            return await self._die(request)
        kind, fault = self._struck_by(number, rid, ids)
        if fault and kind not in ANSWER_FAULTS:
            answered = await self._fail(request, kind, fault)
            if answered is not None:
                return answered
        return await self._answer(request, rid, body, kind)

    def _struck_by(self, number: int, rid: str, ids: list[int]) -> tuple[str, Fault | None]:
        for fault in self.faults:
            if fault.strikes(number, rid, ids, seed=self.scenario.seed):
                self.struck[fault.kind] += 1
                return fault.kind, fault
        return "", None

    async def _answer(
        self, request: web.Request, rid: str, body: dict[str, Any], kind: str
    ) -> web.StreamResponse:
        sampling = body.get("sampling_params") or {}
        output = output_for(self.scenario, body["input_ids"], k_of(rid), sampling)
        answer = answer_for(rid, body["input_ids"], output)
        if not body.get("return_prompt_token_ids"):
            del answer["prompt_token_ids"]
        try:
            async with self._slot(rid) as aborted:
                duration = self.scenario.latency_s
                duration += self.scenario.latency_per_token_s * len(output[0])
                if duration:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(aborted.wait(), duration)
                if aborted.is_set():
                    kind = "abort_200"
        except OverflowError:
            self.stats["queue_full"] += 1
            return reply(ERROR_BODIES["busy"], status=503)
        if kind in ANSWER_FAULTS:
            answer = spoiled(answer, kind, self.scenario)
        whole = orjson.dumps([answer] * 2 if sampling.get("n", 1) > 1 else answer)
        if kind == "reset_in_body":
            return await self._half_an_answer(request, whole)
        if kind == "truncated_json":
            return web.Response(body=whole[: len(whole) // 2], content_type="application/json")
        self.stats["answered"] += 1
        self.stats["output_tokens"] += len(output[0])
        self.rids[rid] += 1
        return web.Response(body=whole, content_type="application/json")

    @contextlib.asynccontextmanager
    async def _slot(self, rid: str) -> AsyncIterator[asyncio.Event]:
        """A place among the running ones. Raises OverflowError when the queue is full."""
        if self._slots.locked() and 0 <= self.scenario.max_queued <= self._waiting:
            raise OverflowError
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._running[rid] = aborted = asyncio.Event()
        self.stats["most_running"] = max(self.stats["most_running"], len(self._running))
        try:
            yield aborted
        finally:
            del self._running[rid]
            self._slots.release()

    async def _fail(
        self, request: web.Request, kind: str, fault: Fault
    ) -> web.StreamResponse | None:
        """What a fault of the transport does; None when the request goes on (late, or cut)."""
        if kind in ERROR_BODIES:
            return reply(ERROR_BODIES[kind], status=OWN_STATUS.get(kind, fault.status))
        match kind:
            case "slow":
                await asyncio.sleep(fault.delay_s)
            case "hang":
                await asyncio.Event().wait()
            case "die":
                return await self._die(request)
            case "close_early":
                request.transport.close()
                return web.Response()
            case "not_http":
                request.transport.write(b"this is not HTTP\r\n\r\n")
                request.transport.close()
                return web.Response()
            case "html_error":
                page = "<html><head><title>502 Bad Gateway</title></head></html>"
                return web.Response(text=page, status=502, content_type="text/html")
        return None

    async def _half_an_answer(self, request: web.Request, whole: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(whole))})
        response.content_type = "application/json"
        await response.prepare(request)
        await response.write(whole[: len(whole) // 2])
        request.transport.abort()
        return response

    async def _die(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.scenario.death_delay_s)
        if self._real_death:
            os.kill(os.getpid(), signal.SIGKILL)
        request.transport.abort()
        death = asyncio.create_task(self.kill())
        self._deaths.add(death)
        return web.Response()


def checked(faults: list[Fault]) -> list[Fault]:
    """The faults, when their kinds exist. Raises ValueError naming one that does not."""
    for fault in faults:
        if fault.kind not in FAULTS:
            raise ValueError(f"no fault {fault.kind!r}; there are {', '.join(sorted(FAULTS))}")
    return faults


async def serve(scenario: Scenario, port: int) -> None:
    """Serve until SIGTERM, then drain as the real one does: without a deadline."""
    async with FakeSglang(scenario, port=port, real_death=True) as fake:
        ended = asyncio.Event()
        on_term = (lambda: None) if scenario.ignore_sigterm else ended.set
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_term)
        print(fake.port, flush=True)
        print("The server is fired up and ready to roll!", file=sys.stderr, flush=True)
        await ended.wait()
        await fake.drained()


def main(argv: list[str] | None = None) -> None:
    """Flags of the real server that mean nothing here are ignored, so that its argv works too."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--scenario", default="{}", help="JSON, or @ and a file's name")
    parser.add_argument("--api-key", default="")
    known, _ = parser.parse_known_args(argv)
    file = known.scenario.removeprefix("@")
    text = known.scenario if file == known.scenario else Path(file).read_text()
    scenario = msgspec.json.decode(text, type=Scenario)
    if known.api_key:
        scenario = msgspec.structs.replace(scenario, api_key=known.api_key)
    asyncio.run(serve(scenario, known.port))


if __name__ == "__main__":
    main()
