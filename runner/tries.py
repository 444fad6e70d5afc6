"""What a fault means for the sample that met it: pure decisions, apart from the sending.

    unusable     asked again, until `client.retry.max_attempts` in all; then recorded
    refused      recorded at once: asking again cannot help
    busy         asked again later; costs no attempt
    unreachable  the server may be gone: asked again when it is back; costs no attempt

A sample in flight at `SUSPECT_DEATHS` deaths of the server, or that lost its connection as often as
a sample is asked for, is a suspect. A suspect is asked for alone; one that kills the server alone
is recorded as `kills_server`, one that still gets no answer as what it met.
"""

from enum import StrEnum
from typing import NamedTuple

from runner.config import Retry
from runner.engines.base import EngineFault, FaultKind

SUSPECT_DEATHS = 2
IN_FLIGHT = ("disconnected", "cut_body")
"""Unreachable in a way that this very request may have caused: it was being worked on."""


_MOST_DOUBLINGS = 64
"""Beyond that any limit holds, and a float would overflow: a server may be busy all night."""


def backoff_s(waits: int, retry: Retry) -> float:
    """The pause after a fault that `waits` pauses went before: doubled each time, up to a limit."""
    return float(min(retry.backoff_max_s, retry.backoff_s * 2 ** min(waits, _MOST_DOUBLINGS)))


class Next(StrEnum):
    """What becomes of the sample."""

    AGAIN = "again"
    SUSPECT = "suspect"
    FAILED = "failed"


class Step(NamedTuple):
    """`reason` is that of a recorded failure; `permanent`: it is not asked for again, ever."""

    next: Next
    reason: str = ""
    permanent: bool = False


AGAIN = Step(Next.AGAIN)


class Tries:
    """What one sample has been through. `asked` counts the requests that were spent on it, those of
    earlier attempts included."""

    def __init__(self, asked: int, *, most: int, alone: bool) -> None:
        self.asked = asked
        self._most = most
        self._alone = alone
        self._deaths = self._losses = 0

    def after(self, fault: EngineFault, *, died: bool) -> Step:
        """What to do after this fault. `died`: the server died while this request was out."""
        match fault.kind:
            case FaultKind.UNREACHABLE:
                return self._after_loss(fault.reason, died) if fault.reason in IN_FLIGHT else AGAIN
            case FaultKind.REFUSED:
                self.asked += 1
                return Step(Next.FAILED, fault.reason, permanent=True)
            case FaultKind.UNUSABLE:
                self.asked += 1
                spent = self.asked >= self._most
                return Step(Next.FAILED, fault.reason) if spent else AGAIN
        return AGAIN

    def _after_loss(self, reason: str, died: bool) -> Step:
        self._deaths += died
        self._losses += 1
        lost = self._losses >= self._most
        if not self._alone:
            return Step(Next.SUSPECT) if self._deaths >= SUSPECT_DEATHS or lost else AGAIN
        if self._deaths:
            return Step(Next.FAILED, "kills_server", permanent=True)
        if lost:
            self.asked = max(self.asked, self._most)
            return Step(Next.FAILED, reason)
        return AGAIN
