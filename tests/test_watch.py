"""When canary and breaker trip, and what they say."""

import pytest

from runner.config import Breaker, Canary
from runner.records import Expected, JudgedVerdict, Outcome, PlannedSample
from runner.watch import Alarm, Event, Tripped, Watch, alarm_of, bad_answers
from runner.waves import spread_first
from tests.validators.make import judged, sample_of

BAD = Event("B4", True, "nan_stop", "matched 'NaN happened'", "B4-1-0")
OTHER = Event("B4", True, "unassigned", "id 163700", "B4-2-0")
GOOD = Event("B4", False)
FLAGGED = Event("B4", False, flags=("no_close",))


def alarm(events: list[Event], *, limit: float = 0.5, **rates: float) -> Alarm | None:
    return alarm_of(events, limit, {"B4": Expected(rates=rates)})


@pytest.mark.parametrize(("bad", "good", "trips"), [(4, 4, False), (5, 4, True), (0, 9, False)])
def test_more_than_the_limit_is_too_much(bad: int, good: int, trips: bool) -> None:
    assert (alarm([BAD] * bad + [GOOD] * good) is not None) is trips


def test_the_main_reason_comes_first_in_name_and_evidence() -> None:
    found = alarm([OTHER, OTHER, BAD, BAD, BAD])
    assert found is not None
    assert (found.reason, found.count, found.of) == ("nan_stop", 5, 5)
    assert found.found == {"nan_stop": 3, "unassigned": 2}
    assert [event.reason for event in found.worst] == ["nan_stop"] * 3


def test_flags_alone_never_trip() -> None:
    assert alarm([FLAGGED] * 40) is None


@pytest.mark.parametrize(
    ("rate", "having", "trips"),
    [(0.0, 20, False), (0.0, 21, True), (0.6, 32, False), (0.6, 33, True), (1.0, 40, False)],
)
def test_a_rate_trips_beyond_half_way_to_all(rate: float, having: int, trips: bool) -> None:
    found = alarm([FLAGGED] * having + [GOOD] * (40 - having), no_close=rate)
    assert (found is not None) is trips
    if found is not None:
        assert found.reason == "no_close"


def test_a_rate_needs_some_samples_of_its_category() -> None:
    assert alarm([FLAGGED] * 5, no_close=0.0) is None
    other = [Event("B5", False, flags=("no_close",))] * 30
    assert alarm(other, no_close=0.0) is None


def watch(**changes: object) -> Watch:
    return Watch(Breaker(**changes), {})


def saw(one: Watch, bad: int, good: int) -> None:
    answer = "a</think>b<|im_end|>"
    for number in range(bad + good):
        nan = {"matched_token": -1, "matched_text": "NaN happened"} if number < bad else {}
        one.saw(judged("kimi_k25", answer, **nan), sample_of([1, 2, 3]))


def test_a_canary_larger_than_the_breakers_window_is_judged_whole() -> None:
    one = Watch(Breaker(window=4, enabled=False), {}, canary=Canary(count=8))
    saw(one, bad=5, good=3)
    with pytest.raises(Tripped):
        one.check_canary(Canary(count=8))
    one = Watch(Breaker(window=4), {}, canary=Canary(count=8))
    saw(one, bad=0, good=4)  # they are in the wave, and no longer in the window
    saw(one, bad=2, good=0)
    with pytest.raises(Tripped):
        saw(one, bad=1, good=0)


def fault(one: Watch, reason: str = "abort") -> None:
    one.saw_fault(reason, "aborted", category="B4", sample_id="B4-0-0", raw="{}")


def test_the_breaker_waits_for_a_few_answers_and_then_trips() -> None:
    one = watch()
    for _ in range(11):
        fault(one)
    with pytest.raises(Tripped) as caught:
        fault(one)
    assert caught.value.alarm.reason == "abort"


def test_good_answers_of_long_ago_do_not_hide_bad_ones() -> None:
    one = watch(window=20)
    good = judged("kimi_k25", "a</think>b<|im_end|>")
    for _ in range(200):
        one.saw(good, sample_of([1]))
    for _ in range(10):
        fault(one)
    with pytest.raises(Tripped):
        fault(one)


def test_a_breaker_that_is_off_never_trips_but_the_canary_does() -> None:
    one = watch(enabled=False)
    for _ in range(50):
        fault(one)
    with pytest.raises(Tripped):
        one.check_canary(Canary())


def test_what_was_forgotten_counts_no_more() -> None:
    one = watch()
    for _ in range(11):
        fault(one)
    one.forget()
    for _ in range(11):
        fault(one)
    one.forget()
    one.check_canary(Canary())


def test_a_cut_at_the_requested_length_is_never_bad() -> None:
    one = watch()
    cut = judged("kimi_k25", "Hm, so", finish="length")
    for _ in range(100):
        one.saw(cut, sample_of([1], finish="length"))
    one.check_canary(Canary())


def test_the_message_shows_the_worst_three_decoded() -> None:
    events = [
        Event("B4", True, "nan_stop", "matched", f"B4-{i}-0", ids=((65, 66), (67,)))
        for i in range(5)
    ]
    found = alarm(events)
    assert found is not None
    error = bad_answers("The canary stopped the run", found, lambda ids: "".join(map(chr, ids)))
    text = str(error)
    assert text.splitlines()[0].startswith("The canary stopped the run, mainly for nan_stop: 5")
    assert text.count("'AB' ... 'C'") == 3
    assert error.exit_code == 3


def test_ids_that_cannot_be_decoded_are_shown_as_numbers() -> None:
    def broken(ids: list[int]) -> str:
        raise OverflowError

    found = alarm([Event("B4", True, "out_of_vocabulary", "id -1", "B4-0-0", ids=((-1,), ()))] * 3)
    assert found is not None
    assert "[-1]" in str(bad_answers("x", found, broken))


def test_an_answers_raw_text_is_evidence_too() -> None:
    one = watch()
    for _ in range(11):
        fault(one)
    with pytest.raises(Tripped) as caught:
        fault(one)
    assert "'{}'" in str(bad_answers("x", caught.value.alarm, lambda _: ""))


def test_a_flag_counts_as_event_only_where_a_rate_is_expected() -> None:
    one = Watch(Breaker(), {"B4": Expected(rates={"no_close": 0.0})})
    lost = judged("kimi_k25", "never closed<|im_end|>")
    assert lost.verdicts["thinking"] == JudgedVerdict(
        outcome=Outcome.FAIL, reason="no_close", severity="flag",
        detail=lost.verdicts["thinking"].detail,
    )  # fmt: skip
    for _ in range(11):
        one.saw(lost, sample_of([1]))
    with pytest.raises(Tripped) as caught:
        one.saw(lost, sample_of([1]))
    assert caught.value.alarm.reason == "no_close"


def planned(category: str, row: int) -> PlannedSample:
    return PlannedSample(
        sample_id=f"{category}-{row}-0",
        prompt=row,
        prompt_hash="",
        category=category,
        row=row,
        k=0,
        prompt_tokens=1,
    )


def order(samples: list[PlannedSample], count: int, categories: int) -> list[str]:
    return [s.sample_id for s in spread_first(iter(samples), count, categories)]


def test_the_canary_has_every_category_although_one_is_rare() -> None:
    samples = [planned("B1", row) for row in range(50)] + [planned("B2", 50), planned("B1", 51)]
    sent = order(samples, 4, 2)
    assert sent[:4] == ["B1-0-0", "B1-1-0", "B1-2-0", "B2-50-0"]
    assert sorted(sent) == sorted(s.sample_id for s in samples)
    assert sent[4:] == [f"B1-{row}-0" for row in (*range(3, 50), 51)]


@pytest.mark.parametrize("count", [0, 1, 8, 100])
def test_nothing_is_lost_or_sent_twice_by_the_order(count: int) -> None:
    samples = [planned(f"B{row % 3}", row) for row in range(30)]
    sent = order(samples, count, 3)
    assert sorted(sent) == sorted(s.sample_id for s in samples)


def test_fewer_samples_than_the_canary_asks_for() -> None:
    assert order([planned("B1", 0)], 8, 1) == ["B1-0-0"]
    assert order([], 8, 1) == []
