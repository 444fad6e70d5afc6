"""SIGINT and SIGTERM: the first drains, the second aborts. Nothing is lost by either.

Drain: no new requests; those in flight may finish within `shutdown.drain_s`. Abort: those in
flight are given up and owed again.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether, and how urgently, this process was told to end."""

    def __init__(self, say: Callable[[str], None] = lambda _text: None) -> None:
        self.draining = asyncio.Event()
        self.aborting = asyncio.Event()
        self.signal = ""
        self._say = say

    @property
    def requested(self) -> bool:
        """True from the first signal on; may be read from any thread."""
        return self.draining.is_set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Listen while the block runs; the handlers that were there come back afterwards."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._received, number)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _received(self, number: signal.Signals) -> None:
        self.signal = signal.Signals(number).name
        if self.draining.is_set():
            self._say(f"{self.signal} again: aborting; requests in flight are owed again")
            self.aborting.set()
        else:
            self._say(f"{self.signal}: finishing requests in flight, then saving (again to abort)")
            self.draining.set()


def leave_at_once_on_signals() -> None:
    """Until `Stop` listens nothing is begun that must be ended in order: say so and exit 130.

    An exception would do worse: raised inside an import or Hydra's parsing it comes out as
    something else.
    """
    for number in _SIGNALS:
        signal.signal(number, _leave_at_once)


def _leave_at_once(number: int, _frame: object) -> None:
    name = signal.Signals(number).name
    os.write(2, f"\n{name}: nothing was being sent; the same command goes on\n".encode())
    os._exit(130)
