"""A server that this runner starts, watches, restarts and ends.

Each launch has a folder of its own: `argv.json` (what was started, secrets masked, and its seed)
and `server.log`. Launches are numbered through one attempt of a run.
"""

import asyncio
import dataclasses
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.config import Restart, ServerKind
from runner.config import Server as ServerConfig
from runner.errors import ServerError
from runner.servers import ports
from runner.servers.argv import (
    Command,
    LaunchFacts,
    launch_seed,
    llamacpp_command,
    masked_argv,
    masked_env,
    sglang_command,
)
from runner.servers.endpoint import Endpoint, Lifetime, ModelFacts
from runner.servers.gpulock import gpus_here, gpus_taken, held
from runner.servers.ladder import next_rung
from runner.servers.llamacpp_main import API_KEY_ENV
from runner.servers.process import ServerProcess
from runner.servers.ready import ServerDied, wait_until_ready

COMMANDS: dict[ServerKind, Callable[[ServerConfig, ModelFacts, LaunchFacts], Command]] = {
    ServerKind.llamacpp: llamacpp_command,
    ServerKind.sglang: sglang_command,
}
PORT_TRIES = 3
"""Starts with another free port when somebody else took the chosen one first."""
FORGIVEN_AFTER_S = 3600.0
"""A launch that lived this long gives the whole restart budget back: a server that dies twice a
day must not end a run of a week, one that dies at every start must."""


def backoff_s(restarts: int, policy: Restart) -> float:
    """The pause before the n-th restart in a row (n from 1): doubled each time, up to a limit."""
    doublings = min(restarts - 1, 64)  # beyond that the limit holds anyway, and floats overflow
    return float(min(policy.backoff_s * 2**doublings, policy.backoff_max_s))


def restarts_after(restarts: int, *, lived_s: float) -> int:
    """How many restarts count against the budget after a launch that was up for `lived_s`."""
    return 0 if lived_s >= FORGIVEN_AFTER_S else restarts


class LaunchedServer(Lifetime):
    """See `endpoint.Server` for what it promises. Use it through `base.open_server`."""

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
        self.restarts = 0
        self.rungs = 0
        self._config = config
        self._asked_flags = dict(config.flags)
        self._shown: dict[str, Any] = {}
        self._model = model_facts
        self._launches_dir = launches_dir
        self._seed = seed
        self._api_key = _choose_key(config)
        self._endpoints: list[Endpoint] = []
        self._process: ServerProcess | None = None
        self._up = asyncio.Event()
        self._up_since = 0.0
        self._up_bytes = 0
        # What is wrong with the config shows now, before anything is started or written.
        COMMANDS[config.kind](config, model_facts, LaunchFacts(port=0, seed=0, folder=launches_dir))

    @property
    def endpoints(self) -> list[Endpoint]:
        return list(self._endpoints)

    @property
    def process(self) -> ServerProcess | None:
        """The current launch's process: its pid, its log and how far the log has grown."""
        return self._process

    @property
    def lowered(self) -> dict[str, Any]:
        """The flags that deaths of memory changed so far; {} while there was none."""
        flags = self._config.flags
        return {n: v for n, v in flags.items() if self._asked_flags.get(n) != v}

    async def start(self) -> None:
        """As promised by `Server`. One that is up already (see `adopt`) stays as it is."""
        port_tries = PORT_TRIES
        while not (self._up.is_set() and self.alive()):
            try:
                await self._launch()
            except ServerDied as death:
                port_tries -= death.cause == "port_in_use"
                again = death.cause == "port_in_use" and not self._config.port and port_tries > 0
                if not again and not self._step_down():
                    raise

    def adopt(self, launches_dir: Path, *, first_launch: int) -> None:
        """Go on for another run: the launch that is up becomes that run's `first_launch`, and the
        restart budget is whole again."""
        self._launches_dir = launches_dir
        self.launch = first_launch
        self.restarts = 0
        folder = launches_dir / f"{first_launch:02d}"
        folder.mkdir(parents=True)
        log = str(self._process.log_path) if self._process is not None else ""
        shown = {**self._shown, "shared": True, "log": log}
        (folder / "argv.json").write_text(json.dumps(shown, indent=2) + "\n")

    def _step_down(self) -> bool:
        """After a death of memory: the next rung of the ladder, if there is one."""
        if self.last_cause != "out_of_memory":
            return False
        step = next_rung(self._config.flags, self._config.restart.ladder, self.rungs)
        if step is None:
            return False
        flags, self.rungs = step
        self._config = dataclasses.replace(self._config, flags=flags)
        return True

    async def stop(self) -> None:
        self._up.clear()
        if self._process is not None:
            await self._process.stop(self._config.term_timeout_s)

    async def restart(self, reason: str) -> None:
        """Tries until a launch comes up. Raises ServerError when `max_restarts` is spent."""
        policy = self._config.restart
        self._note_death()
        if self._up.is_set():
            lived_s = time.monotonic() - self._up_since
            self.restarts = restarts_after(self.restarts, lived_s=lived_s)
        while True:
            await self.stop()
            if self.restarts >= policy.max_restarts:
                raise self._budget_spent(reason)
            self.restarts += 1
            self._step_down()
            await asyncio.sleep(backoff_s(self.restarts, policy))
            try:
                return await self.start()
            except ServerError as error:
                reason = error.what if not isinstance(error, ServerDied) else error.reason

    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    def log_bytes(self) -> int:
        return 0 if self._process is None else self._process.log_bytes()

    async def died(self) -> str:
        while True:
            await self._up.wait()
            process = self._process
            assert process is not None  # noqa: S101 - set before `_up` is
            await asyncio.wait({process.exited})
            if not process.stop_asked:
                return self._note_death()

    def _note_death(self) -> str:
        """Why the current process ended unasked; "" when it did not."""
        process = self._process
        if process is None or process.stop_asked or not process.exited.done():
            return ""
        death = ServerDied(process, during="running", since_bytes=self._up_bytes)
        self.last_cause = death.cause
        return death.reason

    async def _launch(self) -> None:
        """One start, in a folder of its own; on any failure nothing of it is left."""
        host, port = self._config.host, self._config.port
        if port:
            ports.check_port_free(host, port)
        else:
            port = ports.free_port(host)
        self.launch += 1
        folder = self._launches_dir / f"{self.launch:02d}"
        folder.mkdir(parents=True)
        launch = LaunchFacts(
            port=port,
            seed=launch_seed(self._seed, self.launch),
            folder=folder,
            api_key=self._api_key,
        )
        command = COMMANDS[self.kind](self._config, self._model, launch)
        url = ports.url_of(host, port)
        endpoint = Endpoint(url=url, api_key=self._api_key, name=url.partition("//")[2])
        self._shown = _shown(command, launch, url=url, lowered=self.lowered)
        (folder / "argv.json").write_text(json.dumps(self._shown, indent=2) + "\n")
        self._endpoints = [endpoint]
        async with held(self._gpus(command), owner=f"process {os.getpid()}, {folder}") as locks:
            await self._run(command, endpoint, folder=folder, locks=locks)

    def _gpus(self, command: Command) -> list[str]:
        if self.kind is not ServerKind.sglang:
            return []
        return gpus_taken(command.argv, {**os.environ, **command.env}, gpus_here())

    async def _run(
        self, command: Command, endpoint: Endpoint, *, folder: Path, locks: list[int]
    ) -> None:
        process = self._process = ServerProcess(
            command.argv,
            env={**os.environ, **command.env},
            log_path=(folder / "server.log").absolute(),
            term_timeout_s=self._config.term_timeout_s,
            secrets=[self._api_key] if self._api_key else [],
            stop_command=self._config.stop_command,
            remove=[command.secret_file[0]] if command.secret_file else [],
            held=locks,
        )
        try:
            _write_secret(command)
            await process.start()
            await wait_until_ready(endpoint, process, ready_timeout_s=self._config.ready_timeout_s)
            self._check_is_ours(process, endpoint)
        except BaseException as error:
            self.last_cause = error.cause if isinstance(error, ServerDied) else ""
            await process.stop(self._config.term_timeout_s)
            raise
        finally:
            _remove_secret(command)
        self._up_since = time.monotonic()
        self._up_bytes = process.log_path.stat().st_size
        self._up.set()

    def _check_is_ours(self, process: ServerProcess, endpoint: Endpoint) -> None:
        """Somebody else's server may have taken the port just before ours: never talk to it."""
        port = int(endpoint.url.rpartition(":")[2])
        # A command of the user's own may start it elsewhere, say in a container.
        if self._config.command is None and not ports.tree_listens(process.pid, port):
            raise ServerError(
                f"another process answers on port {port}, not the server that was started",
                where=endpoint.url,
                found=ports.port_holder(port) or "a process that this user may not see",
                next_step="end that process, or choose another server.port",
            )

    def _budget_spent(self, reason: str) -> ServerError:
        return ServerError(
            f"the server was restarted {self.restarts} times and does not stay up",
            where=str(self._launches_dir / f"{self.launch:02d}" / "server.log"),
            found=reason,
            allowed=f"server.restart.max_restarts={self._config.restart.max_restarts}",
            next_step="read that log; the same command continues once the cause is gone",
        )


def _choose_key(config: ServerConfig) -> str:
    """The key from the environment if there is one; else a new one, unless only this machine can
    reach the server."""
    given = config.env.get(API_KEY_ENV) or os.environ.get(API_KEY_ENV, "")
    if given or ports.is_loopback(config.host):
        return given
    return secrets.token_hex(32)  # no leading dash, which command-line parsers stumble over


def _shown(
    command: Command, launch: LaunchFacts, *, url: str, lowered: dict[str, Any]
) -> dict[str, Any]:
    return {
        "argv": masked_argv(command.argv, secrets=[launch.api_key]),
        "env": masked_env(command.env),
        "seed": launch.seed,
        "url": url,
        "lowered": lowered,
        "started_at": time.time(),
    }


def _write_secret(command: Command) -> None:
    if command.secret_file is not None:
        path, text = command.secret_file
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)


def _remove_secret(command: Command) -> None:
    if command.secret_file is not None:
        command.secret_file[0].unlink(missing_ok=True)
