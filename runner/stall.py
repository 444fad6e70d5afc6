"""Whether a server hangs. Pure: signs and a clock in, a decision out.

Hung means: alive, work running, and for `stall_s` no completion, no change in the server's own
counters and no new log line. A long prefill, a long queue and a slow answer show at least one of
these, so they are not hung; a server with nothing to do never is.
"""

from typing import NamedTuple

from runner.engines.base import ServerLoad


class Signs(NamedTuple):
    """What was seen of a server at one moment; any difference to the last look is life."""

    answered: int
    load: ServerLoad | None
    log_bytes: int


class StallClock:
    """How long nothing has moved while work was running."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._signs: Signs | None = None
        self._since = 0.0

    def look(self, signs: Signs, *, busy: bool, now: float) -> bool:
        """True when the server hangs. A true answer starts the count again."""
        moved = signs != self._signs
        self._signs = signs
        if moved or not busy:
            self._since = now
        hung = now - self._since >= self._stall_s
        if hung:
            self._since = now
        return hung


def poll_s(stall_s: float) -> float:
    """Seconds between two looks: often enough to be right about `stall_s`, never a burden."""
    return min(10.0, max(0.05, stall_s / 20))
