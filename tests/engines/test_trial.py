"""Endpoints that answer unusably, come back on trial, are given up on, or are asked one by one."""

import asyncio

from runner.engines.balance import (
    UNUSABLE_AFTER,
    EndpointState,
    choose,
    note_answer,
    note_fault,
    note_probe,
)
from runner.engines.base import EngineFault, FaultKind
from runner.engines.pool import EndpointStats, merge_stats
from runner.records import Completion
from tests.engines.fake_answers import Fault, Scenario
from tests.engines.samples import PROMPT, SAMPLING
from tests.engines.test_pool import send_all, settle, with_pool

BROKEN = EngineFault(FaultKind.UNUSABLE, "missing_meta")
ANSWER = Completion(rid="r", output_ids=[1, 2], finish="stop", prompt_tokens=1, completion_tokens=2)


def broken(times: int, *, others: bool) -> EndpointState:
    state = EndpointState("a")
    for _ in range(times):
        note_fault(state, BROKEN, 5.0, others=others)
    return state


def test_one_of_several_that_only_answers_unusably_is_set_aside():
    assert broken(UNUSABLE_AFTER - 1, others=True).out_since is None
    assert broken(UNUSABLE_AFTER, others=True).out_since == 5.0


def test_the_only_endpoint_stays_in_use_whatever_it_answers():
    assert broken(100, others=False).out_since is None


def test_a_good_answer_between_starts_the_count_again():
    state = broken(UNUSABLE_AFTER - 1, others=True)
    note_answer(state, ANSWER)
    note_fault(state, BROKEN, 6.0, others=True)
    assert state.out_since is None


def test_on_trial_the_first_unusable_answer_sets_it_aside_again():
    state = broken(UNUSABLE_AFTER, others=True)
    note_probe(state, healthy=True, now=7.0)
    assert state.out_since is None
    note_fault(state, BROKEN, 8.0, others=True)
    assert state.out_since == 8.0


def test_on_trial_it_gets_one_request_at_a_time():
    trial, fine = EndpointState("a", on_trial=True), EndpointState("b", outstanding=50)
    assert choose([trial, fine], 1) == 0
    trial.outstanding = 1
    assert choose([trial, fine], 1) == 1
    note_answer(trial, ANSWER)
    assert choose([trial, fine], 1) == 0


def test_all_on_trial_and_tried_just_now_means_wait():
    assert choose([EndpointState(n, on_trial=True, outstanding=1) for n in "ab"], 1) is None


def test_the_only_endpoint_is_never_on_trial_for_choice():
    assert choose([EndpointState("a", on_trial=True, outstanding=9)], 1) == 0


def test_the_one_that_has_just_failed_a_sample_is_avoided_if_there_is_another():
    pair = [EndpointState("a"), EndpointState("b", outstanding=9)]
    assert choose(pair, 1, avoid="a") == 1
    assert choose(pair[:1], 1, avoid="a") == 0


def test_an_abandoned_endpoints_requests_end_and_it_is_left_alone():
    async def use(pool, fakes, _clock):
        hung, _fine = fakes
        sending = asyncio.ensure_future(send_all(pool, 6))
        await settle(lambda: hung.stats["requests"] > 0 and len(fakes[1].rids) > 0)
        await pool.abandon(hung.url)
        results = await sending
        faults = [one for one in results if isinstance(one, EngineFault)]
        assert {fault.reason for fault in faults} == {"disconnected"}
        assert {fault.endpoint for fault in faults} == {hung.url}
        assert pool.usable == 1
        before = hung.stats["requests"]
        assert not [
            one for one in await send_all(pool, 6, start=10) if isinstance(one, EngineFault)
        ]
        assert hung.stats["requests"] == before

    with_pool(use, Scenario(faults=[Fault(kind="hang")]), Scenario())


def test_a_probe_asks_every_endpoint_and_says_what_is_wrong_where():
    async def use(pool, fakes, _clock):
        found = await pool.probe(PROMPT, SAMPLING)
        good, bad = fakes
        assert found[good.url] is None
        assert found[bad.url].reason == "missing_meta"

    with_pool(use, Scenario(), Scenario(faults=[Fault(kind="missing_meta")]))


def test_requests_that_the_caller_gave_up_are_counted():
    async def use(pool, fakes, _clock):
        sending = asyncio.ensure_future(send_all(pool, 3))
        await settle(lambda: fakes[0].stats["requests"] == 3)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        (stats,) = pool.stats()
        assert (stats.sent, stats.given_up, stats.outstanding) == (3, 3, 0)

    with_pool(use, Scenario(faults=[Fault(kind="hang")]))


def stats(endpoint: str, answered: int, faults: dict[str, int]) -> EndpointStats:
    return EndpointStats(
        endpoint=endpoint,
        in_use=True,
        outstanding=0,
        sent=answered + sum(faults.values()),
        answered=answered,
        output_tokens=10 * answered,
        set_aside=1,
        given_up=0,
        faults=faults,
    )


def test_launches_of_one_endpoint_are_added_up():
    first, other, again = (
        stats("a", 2, {"x": 1}),
        stats("b", 5, {}),
        stats("a", 3, {"x": 2, "y": 1}),
    )
    merged = {one.endpoint: one for one in merge_stats([first, other, again])}
    assert merged["b"] == other
    assert merged["a"].answered == 5
    assert merged["a"].sent == 9
    assert merged["a"].faults == {"x": 3, "y": 1}
    assert merged["a"].set_aside == 2
