"""Telling somebody: `notify.command` gets one JSON object on its standard input at each event.

    restart   the server is lost and is brought back           reason, deaths
    stall     nothing moved for `server.stall_s`               endpoint, stall_s
    breaker   canary, probe or breaker stopped the run         status, reason, counts
    gate      done, and a gate failed                          status, reason, counts
    done      done                                             status, counts
    failed, interrupted                                        status, reason, counts

Each object also has event, run_id, run, host and at (seconds since 1970). The command never holds
up or harms a run: it has `notify.timeout_s`, and one that fails is a line in the log.
"""

import json
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.config import Notify
from runner.records import RunStatus

EVENT_OF_STATUS = {
    RunStatus.DONE: "done",
    RunStatus.GATE_FAILED: "gate",
    RunStatus.STOPPED_BAD_DATA: "breaker",
    RunStatus.FAILED: "failed",
    RunStatus.INTERRUPTED: "interrupted",
}


class Notifier:
    """Sends the events of one run, in their order, from a thread of its own."""

    def __init__(self, config: Notify, run_dir: Path, *, say: Callable[[str], None]) -> None:
        self._config = config
        self._run_dir = run_dir
        self._say = say
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._sending: threading.Thread | None = None

    def send(self, event: str, **facts: Any) -> None:
        """Hand one event over; returns at once. Nothing happens without a command."""
        if not self._config.command:
            return
        if self._sending is None:
            self._sending = threading.Thread(target=self._work, args=(self._config.command,))
            self._sending.start()
        self._events.put(
            {
                "event": event,
                "run_id": self._run_dir.name,
                "run": str(self._run_dir),
                "host": socket.gethostname(),
                "at": time.time(),
                **facts,
            }
        )

    def close(self) -> None:
        """Return when every event was delivered or had its time."""
        if self._sending is not None:
            self._events.put(None)
            self._sending.join()
            self._sending = None

    def _work(self, command: list[str]) -> None:
        while (message := self._events.get()) is not None:
            self._deliver(command, message)

    def _deliver(self, command: list[str], message: dict[str, Any]) -> None:
        text = json.dumps(message, default=str)
        try:
            done = subprocess.run(
                command,
                input=text,
                text=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=self._config.timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._say(f"notify.command: {type(error).__name__}: {error}")
            return
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            self._say(f"notify.command ended with {done.returncode} {' '.join(last)}")
