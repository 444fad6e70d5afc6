"""`client.concurrency: auto` against a simulated server with a known best number, in virtual time.

The signals are late by three looks and wrong by up to a tenth, unless a test says otherwise.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.auto import INTERVAL_S, MACHINES, NUMBERS, after, all_at_once, jobs
from benchmarks.batching import Job, Machine, makespan_s
from benchmarks.closed_loop import Trace, best_fixed, follow
from runner.pacing import FIRST, Pacing, Reading, decide
from runner.records import NOT_TOLD

LATE = {"delay_s": 3 * INTERVAL_S, "noise": 0.1}


def run(machine: Machine, work: list[Job], **more: object) -> Trace:
    return follow(work, machine, first=Pacing(), interval_s=INTERVAL_S, **{**LATE, **more})


@pytest.mark.parametrize("name", MACHINES)
def test_it_is_within_a_tenth_of_the_best_fixed_number(name: str) -> None:
    machine, work = MACHINES[name], jobs(4000)
    best, seconds = best_fixed(work, machine, NUMBERS)
    found = run(machine, work)
    assert found.makespan_s <= 1.1 * seconds, (best, found.numbers)


@pytest.mark.parametrize("name", ["32 slots", "200 slots", "a cautious scheduler"])
def test_exact_and_prompt_signals_do_no_worse(name: str) -> None:
    machine, work = MACHINES[name], jobs(4000)
    _, seconds = best_fixed(work, machine, NUMBERS)
    assert run(machine, work, delay_s=0.0, noise=0.0).makespan_s <= 1.1 * seconds


@pytest.mark.parametrize("name", ["a cache for about 110", "a cache for about 35"])
def test_there_is_no_storm_of_retractions(name: str) -> None:
    machine, work = MACHINES[name], jobs(4000)
    found = run(machine, work)
    assert found.retractions < 0.15 * len(work)


def test_without_bounds_there_would_have_been_a_storm() -> None:
    """What the test above compares with."""
    assert all_at_once(jobs(1000), MACHINES["a cache for about 35"]) > 0.3 * 1000


@pytest.mark.parametrize("name", ["32 slots", "slow beyond 64", "a cautious scheduler"])
def test_tokens_per_second_alone_are_enough(name: str) -> None:
    machine, work = MACHINES[name], jobs(4000)
    _, seconds = best_fixed(work, machine, NUMBERS)
    found = run(machine, work, tells=frozenset())
    assert found.makespan_s <= 1.15 * seconds, found.numbers


@pytest.mark.parametrize(
    ("machine", "fields"),
    [
        (Machine(slots=32), {"slots": 160}),
        (Machine(slots=160), {"slots": 32}),
        (MACHINES["a cache for about 35"], {"kv_tokens": 30_000}),
        (MACHINES["a cache for about 110"], {"kv_tokens": 9_000}),
        (Machine(slots=1000, graph_slots=128), {"graph_slots": 48}),
    ],
    ids=["more slots", "fewer slots", "a larger cache", "a smaller cache", "slow earlier"],
)
def test_it_follows_a_best_number_that_changes_in_mid_run(
    machine: Machine, fields: dict[str, object]
) -> None:
    work = jobs(6000)
    change = after(2500, **fields)
    _, fixed_s = best_fixed(work, machine, NUMBERS, change)
    found = run(machine, work, change=change())
    assert found.makespan_s <= 1.1 * fixed_s, found.numbers
    assert found.retractions < 0.25 * len(work)


def test_after_a_change_the_number_is_near_the_new_best() -> None:
    found = run(Machine(slots=32), jobs(6000), change=after(2500, slots=160)())
    assert 30 <= found.numbers[2][1] <= 48
    assert 150 <= found.numbers[-1][1] <= 240


def test_it_never_leaves_its_range() -> None:
    first = Pacing(number=4, most=20)
    found = follow(jobs(500), Machine(slots=200), first=first, interval_s=INTERVAL_S)
    assert all(1 <= number <= 20 for _, number, _ in found.numbers)
    assert found.numbers[-1][1] == 20


def test_the_bound_is_list_scheduling() -> None:
    """Two slots, unit costs: by hand."""
    machine = Machine(slots=2, step_s=1.0, per_request_s=0.0, prefill_token_s=0.0)
    work = [Job("a", 1, 3), Job("b", 1, 1), Job("c", 1, 1), Job("d", 1, 4)]
    assert makespan_s(work, machine) == 6.0
    assert makespan_s(work, machine, in_flight=1) == 9.0


READINGS = st.builds(
    Reading,
    at_s=st.floats(0, 1e6),
    in_flight=st.integers(0, 2000),
    running=st.integers(-1, 2000),
    queued=st.integers(-1, 2000),
    usage=st.none() | st.floats(0, 1.2),
    tokens_per_s=st.none() | st.floats(0, 1e6),
    finished=st.integers(0, 5000),
    retracted=st.integers(0, 5000),
    latency_s=st.floats(0, 1e4),
)


@given(st.lists(READINGS, max_size=60), st.integers(1, 1024), st.integers(1, 1024))
def test_whatever_a_server_says_the_number_stays_in_its_range(
    readings: list[Reading], first: int, most: int
) -> None:
    state = Pacing(number=min(first, most), most=most)
    for reading in sorted(readings, key=lambda r: r.at_s):
        state = decide(state, reading)
        assert 1 <= state.number <= most


def looks(state: Pacing, count: int, **fields: object) -> Pacing:
    for n in range(count):
        given_ = {"at_s": 5.0 * (n + 1), "in_flight": state.number, **fields}
        state = decide(state, Reading(**given_))
    return state


def test_nothing_changes_while_the_servers_count_is_behind() -> None:
    state = looks(Pacing(), 10, running=4, queued=0, usage=0.1, tokens_per_s=100.0)
    assert state.number == FIRST


def test_nothing_changes_while_the_senders_do_not_use_the_number() -> None:
    state = looks(Pacing(), 10, in_flight=3, running=16, queued=0, tokens_per_s=100.0)
    assert state.number == FIRST


def test_a_server_that_tells_nothing_at_all_keeps_what_brings_no_gain_away() -> None:
    state = looks(Pacing(), 200, tokens_per_s=100.0, running=NOT_TOLD)
    assert state.number <= 2 * FIRST


def test_retractions_lower_the_number_once_and_then_wait_an_answers_time() -> None:
    state = Pacing(number=100)
    bad = {"running": 100, "queued": 0, "usage": 0.99, "tokens_per_s": 1.0, "latency_s": 60.0}
    first = decide(state, Reading(at_s=5.0, in_flight=100, finished=20, retracted=9, **bad))
    assert first.number < 100
    second = decide(first, Reading(at_s=10.0, in_flight=100, finished=20, retracted=9, **bad))
    assert second.number == first.number
    third = decide(second, Reading(at_s=66.0, in_flight=95, finished=20, retracted=9, **bad))
    assert third.number < first.number
