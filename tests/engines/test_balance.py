"""Who is asked next, and who is left alone: the pure rules of the pool."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.balance import (
    AFFINITY_SLACK,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SET_ASIDE_AFTER,
    EndpointState,
    choose,
    note_answer,
    note_fault,
    note_probe,
)
from runner.engines.base import EngineFault, EngineInfo, FaultKind, ServerLoad
from runner.engines.merging import merge_infos, merge_loads
from runner.records import NOT_TOLD, Completion

GONE = EngineFault(FaultKind.UNREACHABLE, "connect_failed")
BUSY = EngineFault(FaultKind.BUSY, "queue_full")
SLOW = EngineFault(FaultKind.UNUSABLE, "timeout")
BROKEN = EngineFault(FaultKind.UNUSABLE, "abort")
ANSWER = Completion(rid="r", output_ids=[1, 2], finish="stop", prompt_tokens=1, completion_tokens=2)


def states(*outstanding: int, out: tuple[int, ...] = ()) -> list[EndpointState]:
    return [
        EndpointState(f"http://{i}", outstanding=n, out_since=0.0 if i in out else None)
        for i, n in enumerate(outstanding)
    ]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers())
def test_the_chosen_one_is_never_much_busier_than_the_least(outstanding, key):
    chosen = choose(states(*outstanding), key)
    least = min(outstanding)
    assert outstanding[chosen] <= max(least + AFFINITY_SLACK, least * 1.25)


@given(st.integers(), st.sets(st.integers(0, 4), max_size=4))
def test_one_that_is_set_aside_is_never_chosen(key, out):
    assert choose(states(0, 0, 0, 0, 0, out=tuple(out)), key) not in out


def test_with_all_set_aside_there_is_no_choice():
    assert choose(states(0, 0, out=(0, 1)), 1) is None


@given(st.integers())
def test_samples_of_one_row_stay_together(key):
    assert len({choose(states(a, b, 1), key) for a in range(4) for b in range(4)}) == 1


def test_a_preferred_one_that_is_much_busier_is_passed_over():
    preferred = choose(states(0, 0), 7)
    outstanding = [0, 0]
    outstanding[preferred] = AFFINITY_SLACK + 1
    assert choose(states(*outstanding), 7) == 1 - preferred


def test_rows_spread_over_all():
    shares = Counter(choose(states(0, 0, 0, 0), key) for key in range(4000))
    assert min(shares.values()) > 700


def test_one_that_leaves_moves_no_row_between_the_others():
    for key in range(200):
        before = choose(states(0, 0, 0), key)
        after = choose(states(0, 0, 0, out=(2,)), key)
        assert before == 2 or before == after


@pytest.mark.parametrize("fault", [GONE, BUSY, SLOW])
def test_too_many_failures_in_a_row_set_it_aside(fault):
    state = EndpointState("x")
    for _ in range(SET_ASIDE_AFTER - 1):
        note_fault(state, fault, 5.0)
    assert state.out_since is None
    note_fault(state, fault, 6.0)
    assert (state.out_since, state.set_aside) == (6.0, 1)


def test_an_answer_in_between_forgives():
    state = EndpointState("x")
    for _ in range(10):
        note_fault(state, GONE, 1.0)
        note_answer(state, ANSWER)
    assert state.out_since is None


def test_a_bad_answer_is_an_answer_too():
    state = EndpointState("x")
    for _ in range(10):
        note_fault(state, GONE, 1.0)
        note_fault(state, BROKEN, 1.0)
    assert state.out_since is None


def test_bad_answers_alone_set_nobody_aside():
    state = EndpointState("x")
    for _ in range(10):
        note_fault(state, BROKEN, 1.0)
    assert (state.out_since, state.faults) == (None, {"abort": 10})


def set_aside() -> EndpointState:
    state = EndpointState("x")
    for _ in range(SET_ASIDE_AFTER):
        note_fault(state, GONE, 100.0)
    return state


def test_it_is_asked_for_its_health_after_the_pause_and_by_one_only():
    state = set_aside()
    assert not state.due(100.0 + FIRST_PAUSE_S / 2)
    assert state.due(100.0 + FIRST_PAUSE_S)
    state.probing = True
    assert not state.due(100.0 + FIRST_PAUSE_S)


def test_one_in_use_is_never_due():
    assert not EndpointState("x").due(1e9)


def test_a_healthy_one_is_taken_back():
    state = set_aside()
    note_probe(state, healthy=True, now=101.0)
    assert (state.out_since, state.failures_in_a_row, state.probing) == (None, 0, False)


def test_the_pause_doubles_up_to_a_limit():
    state, pauses = set_aside(), []
    for _ in range(10):
        note_probe(state, healthy=False, now=1.0)
        pauses.append(state.pause_s)
    assert pauses[:3] == [2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S, 8 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_health_that_lies_keeps_the_pause_growing_until_an_answer_comes():
    state = set_aside()
    note_probe(state, healthy=True, now=1.0)
    assert state.pause_s == 2 * FIRST_PAUSE_S
    note_answer(state, ANSWER)
    assert state.pause_s == FIRST_PAUSE_S


def test_a_late_answer_takes_it_back():
    state = set_aside()
    note_answer(state, ANSWER)
    assert state.out_since is None


def test_the_limits_of_many_are_those_that_hold_everywhere():
    one = EngineInfo(
        kind="sglang",
        version="1",
        context_length=10,
        max_running=4,
        vocab_size=NOT_TOLD,
        eog_ids=[1, 2],
        raw={"a": 1},
    )
    two = EngineInfo(kind="sglang", version="2", context_length=8, max_running=2, eog_ids=[2, 3])
    merged = merge_infos({"u1": one, "u2": two})
    assert (merged.context_length, merged.max_running, merged.vocab_size) == (8, 6, NOT_TOLD)
    assert (merged.version, merged.eog_ids) == ("1, 2", [2])
    assert merged.raw == {"u1": {"a": 1}, "u2": {}}


def test_loads_are_summed():
    one = ServerLoad(running=1, queued=2, used_tokens=10, token_usage=0.1, output_tokens_per_s=5.0)
    two = ServerLoad(running=3, queued=NOT_TOLD, used_tokens=5, token_usage=0.4)
    merged = merge_loads([one, two])
    assert (merged.running, merged.queued, merged.used_tokens) == (4, NOT_TOLD, 15)
    assert (merged.token_usage, merged.output_tokens_per_s) == (0.4, 5.0)
    assert merged.cache_hit_rate is None


def test_no_loads_no_load():
    assert merge_loads([]) is None
