"""Hung is: work running, and nothing moved for stall_s. Nothing else is."""

import msgspec
import pytest

from runner.engines.base import ServerLoad
from runner.stall import Signs, StallClock, poll_s

LOAD = ServerLoad(running=1, used_tokens=10)
STILL = Signs(answered=3, load=LOAD, log_bytes=100)
MOVED = [
    Signs(4, LOAD, 100),
    Signs(3, msgspec.structs.replace(LOAD, used_tokens=11), 100),
    Signs(3, None, 100),
    Signs(3, LOAD, 101),
]


def clock() -> StallClock:
    made = StallClock(10.0)
    assert not made.look(STILL, busy=True, now=100.0)
    return made


def test_nothing_moved_for_stall_s_is_hung() -> None:
    watched = clock()
    assert not watched.look(STILL, busy=True, now=109.9)
    assert watched.look(STILL, busy=True, now=110.0)


@pytest.mark.parametrize("signs", MOVED)
def test_any_change_is_life(signs: Signs) -> None:
    watched = clock()
    assert not watched.look(signs, busy=True, now=109.0)
    assert not watched.look(signs, busy=True, now=118.0)
    assert watched.look(signs, busy=True, now=119.0)


def test_a_server_without_work_is_never_hung() -> None:
    watched = clock()
    assert not watched.look(STILL, busy=False, now=1000.0)
    assert not watched.look(STILL, busy=True, now=1009.0)
    assert watched.look(STILL, busy=True, now=1010.0)


def test_a_true_answer_starts_the_count_again() -> None:
    watched = clock()
    assert watched.look(STILL, busy=True, now=110.0)
    assert not watched.look(STILL, busy=True, now=111.0)
    assert watched.look(STILL, busy=True, now=120.0)


@pytest.mark.parametrize(("stall_s", "expected"), [(900, 10.0), (20, 1.0), (0.1, 0.05)])
def test_looks_are_seldom_but_often_enough(stall_s: float, expected: float) -> None:
    assert poll_s(stall_s) == expected
