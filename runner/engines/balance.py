"""Which endpoint of a pool is asked next, and when one is left alone. Pure rules over plain state.

Least outstanding first; samples of one row go to the same endpoint (its prefix cache holds the
prompt) unless that one is clearly busier or has just failed this sample. An endpoint that fails
`SET_ASIDE_AFTER` times in a row is set aside, asked for its health after a pause, and taken back
when it says yes; the pause doubles until it answers a request. One that answers quickly and always
unusably would draw all traffic to itself, so one of several is set aside for that too. One of
several that was taken back is on trial, with one request at a time, until it answers.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.engines.base import EngineFault, FaultKind
from runner.records import Completion

SET_ASIDE_AFTER = 3
"""Failures in a row: one reset connection is an accident, three are a state."""

UNUSABLE_AFTER = 5
"""Unusable answers in a row, with not one good between them."""

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

AFFINITY_SLACK = 4
"""How many requests more than the least loaded endpoint the preferred one may have."""

AFFINITY_RATIO = 1.25
"""And how many times as many, for when hundreds are in flight."""


@dataclass(slots=True)
class EndpointState:
    """What is known of one endpoint. `out_since` is None while it is in use."""

    name: str
    outstanding: int = 0
    failures_in_a_row: int = 0
    unusable_in_a_row: int = 0
    pause_s: float = FIRST_PAUSE_S
    out_since: float | None = None
    probing: bool = False
    on_trial: bool = False
    sent: int = 0
    answered: int = 0
    output_tokens: int = 0
    set_aside: int = 0
    given_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def due(self, now: float) -> bool:
        """True when it is set aside, its pause is over and nobody is asking it yet."""
        out = self.out_since
        return out is not None and not self.probing and now >= out + self.pause_s


def choose(states: Sequence[EndpointState], affinity_key: int, *, avoid: str = "") -> int | None:
    """The index of the endpoint to ask, or None when all are set aside (or on trial, and tried
    just now). The one named `avoid` is asked only when there is no other.

    Rendezvous hashing picks the preferred endpoint, so that one that leaves or returns moves no
    key between the others.
    """
    usable = [index for index, state in enumerate(states) if state.out_since is None]
    if not usable:
        return None
    usable = [i for i in usable if states[i].name != avoid] or usable
    if len(states) > 1:
        usable = [i for i in usable if not (states[i].on_trial and states[i].outstanding)]
    if not usable:
        return None
    least = min(usable, key=lambda index: states[index].outstanding)
    preferred = max(usable, key=lambda index: _weight(affinity_key, states[index].name))
    floor = states[least].outstanding
    allowed = max(floor + AFFINITY_SLACK, floor * AFFINITY_RATIO)
    return preferred if states[preferred].outstanding <= allowed else least


def _weight(affinity_key: int, name: str) -> int:
    return zlib.crc32(f"{affinity_key}@{name}".encode())


def note_fault(
    state: EndpointState, fault: EngineFault, now: float, *, others: bool = False
) -> None:
    """Count a fault, and set the endpoint aside when it was the last of too many in a row.
    `others`: whether the pool has more endpoints than this one."""
    state.faults[fault.reason] += 1
    state.unusable_in_a_row += fault.kind is FaultKind.UNUSABLE
    worst = 1 if state.on_trial else UNUSABLE_AFTER
    if others and state.out_since is None and state.unusable_in_a_row >= worst:
        state.out_since = now
        state.set_aside += 1
    silent = fault.kind is FaultKind.UNREACHABLE or fault.reason == "timeout"
    if not silent and fault.kind is not FaultKind.BUSY:
        state.failures_in_a_row = 0  # it answered, whatever it said
        return
    state.failures_in_a_row += 1
    if state.out_since is None and state.failures_in_a_row >= SET_ASIDE_AFTER:
        state.out_since = now
        state.set_aside += 1


def note_answer(state: EndpointState, completion: Completion) -> None:
    """Count an answer; the endpoint works, so it is in use again and its pause is short again."""
    state.answered += 1
    state.on_trial = False
    state.unusable_in_a_row = 0
    state.output_tokens += completion.completion_tokens
    state.failures_in_a_row = 0
    state.pause_s = FIRST_PAUSE_S
    state.out_since = None


def note_probe(state: EndpointState, *, healthy: bool, now: float) -> None:
    """Take the endpoint back, or leave it alone again; either way the next pause is longer."""
    state.probing = False
    state.pause_s = min(state.pause_s * 2, LONGEST_PAUSE_S)
    state.failures_in_a_row = 0
    state.unusable_in_a_row = 0
    state.on_trial = True
    state.out_since = None if healthy else now
