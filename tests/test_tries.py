"""What a fault means for the sample that met it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import Retry
from runner.engines.base import EngineFault, FaultKind
from runner.tries import AGAIN, Next, Step, Tries, backoff_s

UNUSABLE = EngineFault(FaultKind.UNUSABLE, "not_json")
REFUSED = EngineFault(FaultKind.REFUSED, "too_long")
BUSY = EngineFault(FaultKind.BUSY, "queue_full")
LOST = EngineFault(FaultKind.UNREACHABLE, "disconnected")
NOBODY = EngineFault(FaultKind.UNREACHABLE, "connect_failed")


def test_an_unusable_answer_is_asked_again_until_all_attempts_are_spent() -> None:
    tries = Tries(1, most=3, alone=False)  # one was spent in an earlier attempt of the run
    assert tries.after(UNUSABLE, died=False) == AGAIN
    assert tries.after(UNUSABLE, died=False) == Step(Next.FAILED, "not_json")
    assert tries.asked == 3


def test_a_refusal_is_for_good() -> None:
    tries = Tries(0, most=3, alone=False)
    assert tries.after(REFUSED, died=False) == Step(Next.FAILED, "too_long", permanent=True)
    assert tries.asked == 1


@pytest.mark.parametrize("fault", [BUSY, NOBODY])
def test_a_server_that_is_busy_or_away_costs_nothing(fault: EngineFault) -> None:
    tries = Tries(3, most=3, alone=False)  # asked for again by resume.retry_failed
    assert {tries.after(fault, died=True) for _ in range(100)} == {AGAIN}
    assert tries.asked == 3


def test_the_second_death_makes_a_suspect() -> None:
    tries = Tries(0, most=4, alone=False)
    assert tries.after(LOST, died=True) == AGAIN
    assert tries.after(LOST, died=False) == AGAIN
    assert tries.after(LOST, died=True) == Step(Next.SUSPECT)
    assert tries.asked == 0


def test_a_connection_lost_as_often_as_a_sample_is_asked_for_makes_a_suspect() -> None:
    tries = Tries(0, most=3, alone=False)
    steps = [tries.after(LOST, died=False).next for _ in range(3)]
    assert steps == [Next.AGAIN, Next.AGAIN, Next.SUSPECT]


def test_a_suspect_that_kills_the_server_alone_is_named_for_it() -> None:
    tries = Tries(0, most=3, alone=True)
    assert tries.after(LOST, died=True) == Step(Next.FAILED, "kills_server", permanent=True)


def test_a_suspect_that_only_gets_no_answer_fails_as_what_it_met() -> None:
    tries = Tries(0, most=2, alone=True)
    assert tries.after(LOST, died=False) == AGAIN
    assert tries.after(LOST, died=False) == Step(Next.FAILED, "disconnected")
    assert tries.asked == 2


@given(st.lists(st.tuples(st.sampled_from([UNUSABLE, REFUSED, BUSY, LOST, NOBODY]), st.booleans())),
       st.integers(1, 6), st.booleans())  # fmt: skip
def test_no_sample_is_asked_for_beyond_its_attempts(
    met: list[tuple[EngineFault, bool]], most: int, alone: bool
) -> None:
    tries = Tries(0, most=most, alone=alone)
    for fault, died in met:
        if tries.after(fault, died=died).next is not Next.AGAIN:
            break
    assert tries.asked <= most


@given(st.integers(0, 10_000))
def test_pauses_double_up_to_their_limit(waits: int) -> None:
    retry = Retry(backoff_s=0.5, backoff_max_s=30.0)
    assert backoff_s(waits, retry) == (0.5 * 2**waits if waits < 6 else 30.0)
