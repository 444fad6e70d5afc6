"""How a run stands, as run.json tells it: one object that knows, one place that writes."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from runner.errors import ConfigError, RunnerError
from runner.recorder import Recorder
from runner.records import RunStatus
from runner.rundir import HEARTBEAT_S, RunDir, RunState, Tokens

STATUS_OF_EXIT = {
    0: RunStatus.INTERRUPTED,  # an estimate: enough was seen, the rest is still owed
    3: RunStatus.STOPPED_BAD_DATA,
    130: RunStatus.INTERRUPTED,
}
"""Every other exit code of an error means FAILED."""


class Standing:
    """The state of a run while one attempt lasts. `state` is what run.json was last told."""

    def __init__(self, run: RunDir, found: RunState) -> None:
        self._run = run
        self._found = found
        self._generating_since: tuple[float, int] | None = None
        self.recorder: Recorder | None = None
        self.mlflow_run_id: Callable[[], str] = lambda: ""
        self.state = msgspec.structs.replace(
            found,
            status=RunStatus.RUNNING,
            reason="",
            attempts=found.attempts + 1,
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def save(self, **changes: Any) -> None:
        """Replace run.json: these changes, and all that moves by itself."""
        changes |= self._measured()
        if mlflow_run_id := self.mlflow_run_id():
            changes["mlflow_run_id"] = mlflow_run_id
        self.state = msgspec.structs.replace(self.state, heartbeat=time.time(), **changes)
        self._run.write(self.state)

    def _measured(self) -> dict[str, Any]:
        if self.recorder is None:
            return {}
        whole = self.recorder.stats.all()
        found: dict[str, Any] = {
            "counts": self.recorder.counts,
            "unplanned": self.recorder.unplanned,
            "tokens": Tokens(prompt=whole.prompt_tokens, output=whole.output_tokens),
        }
        if self._generating_since is not None:
            since, tokens_then = self._generating_since
            now = time.monotonic()
            self._generating_since = now, whole.output_tokens
            found["generate_s"] = self.state.generate_s + now - since
            found["generate_tokens"] = (
                self.state.generate_tokens + whole.output_tokens - tokens_then
            )
        return found

    @contextmanager
    def generating(self) -> Iterator[None]:
        """What happens inside counts as generating (run.json's generate_s), until `settled`."""
        tokens = self.recorder.stats.all().output_tokens if self.recorder is not None else 0
        self._generating_since = time.monotonic(), tokens
        try:
            yield
        finally:
            self.save()

    def settled(self) -> None:
        """The last frame is durable: its tokens still count, the time after it does not."""
        self.save()
        self._generating_since = None

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """run.json is rewritten every HEARTBEAT_S, whatever the attempt is at."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                with suppress(OSError):  # a full disk is met, and told of, by what needs it
                    self.save()

        beating = asyncio.ensure_future(beat())
        try:
            yield
        finally:
            beating.cancel()

    def outcome_of(self, error: RunnerError) -> dict[str, Any]:
        """How run.json tells of an end; a refused command leaves a run's status as it was."""
        if isinstance(error, ConfigError) and self._found.attempts:
            return {"status": self._found.status, "reason": self._found.reason}
        status = STATUS_OF_EXIT.get(error.exit_code, RunStatus.FAILED)
        return {"status": status, "reason": str(error)}


def outcome_of_gates(code: int) -> dict[str, Any]:
    """How run.json tells of a run that was worked to its end."""
    return {"status": RunStatus.DONE if code == 0 else RunStatus.GATE_FAILED}
