"""A server process as the runner sees it: started under our supervisor, watched, ended.

The supervisor (see `supervisor`) is a separate program that ends the whole tree when this process
ends, however it ends. Everything here runs in one event loop; no thread is used.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.errors import MachineError, ServerError
from runner.records import Record
from runner.servers import supervisor
from runner.servers.endpoint import Lifetime
from runner.servers.logs import LogLife, tail_lines


class ProcessExit(Record, frozen=True, kw_only=True):
    """How a server's main process ended: an exit code, or the name of a signal, or neither when
    its supervisor was killed too and nobody saw it."""

    code: int | None = None
    signal: str | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by {self.signal}"
        return "its supervisor was killed" if self.code is None else f"exit code {self.code}"


class ServerProcess(Lifetime):
    """One start of one server. Use once: `start`, then `stop`, which is safe to call at any time.

    `held` are descriptors of locks that the supervisor keeps for as long as anything of the tree is
    left. `exited` is done when the main process has ended (its children may take a moment longer);
    `stop` returns when nothing of the tree is left.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        log_path: Path,
        term_timeout_s: float = 30.0,
        secrets: Sequence[str] = (),
        stop_command: Sequence[str] | None = None,
        remove: Sequence[Path] = (),
        held: Sequence[int] = (),
    ) -> None:
        self.argv = list(argv)
        self.log_path = log_path
        self._held = tuple(held)
        self._life = LogLife(log_path)
        self.pid = 0
        self.stop_asked = False
        self.exited: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self._started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._left: list[int] = []
        self._control = -1
        self._status = -1
        self._buffer = b""
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._spec: dict[str, Any] = {
            "argv": self.argv,
            "env": env,
            "log": str(log_path),
            "term_timeout_s": term_timeout_s,
            "secrets": list(secrets),
            "remove": [str(path) for path in remove],
            "stop_command": None if stop_command is None else list(stop_command),
        }

    async def start(self) -> None:
        """Start it; `pid` is known then. Raises ServerError when the program cannot be run."""
        self._spawn()
        problem = await self._started
        if problem:
            await self.stop()
            raise ServerError(
                "the server's program could not be started",
                where=self.argv[0],
                found=problem,
                next_step="check server.python and server.command",
            )

    def alive(self) -> bool:
        return bool(self.pid) and not self.exited.done()

    async def stop(self, term_timeout_s: float | None = None) -> None:
        """SIGTERM to the whole tree, a deadline, SIGKILL; returns when nothing is left.

        Called again with a shorter time it brings the deadline forward. Raises MachineError when
        a process survives SIGKILL (it hangs in a driver: only a reboot helps).
        """
        if self._supervisor is None:
            return
        self.stop_asked = True
        default_s = self._spec["term_timeout_s"]
        self._tell(f"stop {default_s if term_timeout_s is None else term_timeout_s}")
        await self._ended.wait()
        if self._left:
            raise MachineError(
                "processes of the server survived SIGKILL",
                where=str(self.log_path),
                found=f"pids {', '.join(map(str, self._left))}",
                next_step="they hang in a device driver; look at dmesg, then restart the machine",
            )

    def log_tail(self, count: int = 12) -> list[str]:
        """The last lines of the log that say something; [] when there is none."""
        return tail_lines(self.log_path, count=count)

    def log_bytes(self) -> int:
        """How far the log has grown by itself: while it grows, something is alive in there."""
        return self._life.bytes()

    def _spawn(self) -> None:
        """Run the supervisor by its file: it then needs neither our packages nor our sys.path."""
        their_control, self._control = os.pipe()
        self._status, their_status = os.pipe()
        try:
            with self.log_path.open("ab") as log:
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, f"{their_control}",
                     f"{their_status}"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(their_control, their_status, *self._held),
                    start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(their_control)
            os.close(their_status)
        os.set_blocking(self._status, False)
        asyncio.get_running_loop().add_reader(self._status, self._read_status)
        self._tell(json.dumps(self._spec))

    def _tell(self, line: str) -> None:
        """Best effort: a supervisor that is gone is noticed by the end of its status pipe."""
        if self._control < 0:
            return
        try:
            os.write(self._control, line.encode() + b"\n")
        except BrokenPipeError:
            self._close_control()

    def _read_status(self) -> None:
        data = os.read(self._status, 4096)
        if not data:
            self._end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "started", "pid": int(pid)}:
                self.pid = pid
                self._settle_start("")
            case {"event": "failed", "error": str(error)}:
                self._settle_start(error)
            case {"event": "exited", "code": code, "signal": name}:
                self._settle_exit(ProcessExit(code=code, signal=name))
            case {"event": "left", "pids": list(pids)}:
                self._left = pids

    def _end(self) -> None:
        """The supervisor is gone, so by its promise the whole tree is."""
        asyncio.get_running_loop().remove_reader(self._status)
        os.close(self._status)
        self._close_control()
        if self._supervisor is not None:
            self._supervisor.wait()
        self._settle_start("the supervisor ended before the server was started")
        self._settle_exit(ProcessExit())
        self._ended.set()

    def _settle_start(self, problem: str) -> None:
        if not self._started.done():
            self._started.set_result(problem)

    def _settle_exit(self, how: ProcessExit) -> None:
        if not self.exited.done():
            self.exited.set_result(how)

    def _close_control(self) -> None:
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
