from hypothesis import given
from hypothesis import strategies as st

from runner.view.picks import Ask, Candidate, Lowest, Selection, candidate_of, choose
from tests.runs.conftest import MIXED

CANDIDATES = [
    Candidate("a", "B1", "stop", 30),
    Candidate("b", "B1", "length", 768, frozenset({"length_in_think"})),
    Candidate("c", "B2", "stop", 5),
    Candidate("d", "B2", "stop", 264, frozenset({"loop"})),
]


def chosen(*asks: Ask, candidates=CANDIDATES, category="", limit=10, seed=0, ids=()):
    selections = [Selection(ask, seed=seed, limit=limit, ids=ids) for ask in asks]
    return choose(selections, candidates, category=category), selections


def names(*asks: Ask, **more):
    return [pick.sample_id for pick in chosen(*asks, **more)[0]]


def test_longest_comes_longest_first():
    assert names(Ask("longest", 2)) == ["b", "d"]


def test_shortest_comes_shortest_first():
    assert names(Ask("shortest", 3)) == ["c", "a", "d"]


def test_asking_for_more_than_there_are_gives_all():
    assert sorted(names(Ask("longest", 9))) == ["a", "b", "c", "d"]


def test_selections_add_up_in_the_order_given():
    assert names(Ask("reason", "loop"), Ask("shortest", 1), Ask("finish", "length")) == [
        "d",
        "c",
        "b",
    ]


def test_a_sample_chosen_twice_is_shown_once_with_both_reasons():
    picks, _ = chosen(Ask("longest", 1), Ask("finish", "length"))
    assert [(p.sample_id, p.why) for p in picks] == [("b", ("longest, 1 of 1", "finish length"))]


def test_category_narrows():
    assert names(Ask("longest", 9), category="B2") == ["d", "c"]


def test_random_is_the_same_each_time():
    assert names(Ask("random", 2), seed=3) == names(Ask("random", 2), seed=3)


def test_another_seed_gives_other_samples():
    orders = {tuple(names(Ask("random", 4), seed=seed)) for seed in range(20)}
    assert len(orders) > 5


def test_random_does_not_depend_on_the_order_of_writing():
    assert names(Ask("random", 2)) == names(Ask("random", 2), candidates=CANDIDATES[::-1])


def test_ids_are_taken_as_they_are():
    assert names(Ask("id", "zzz"), ids=["zzz"]) == ["zzz"]


def test_the_limit_says_what_it_left_out():
    picks, [selection] = chosen(Ask("finish", "stop"), limit=2)
    assert [p.sample_id for p in picks] == ["a", "c"]
    assert selection.left_out == "--finish stop: 3 samples, 2 shown; --limit 0 shows all"


def test_no_limit_shows_all():
    assert len(names(Ask("finish", "stop"), limit=0)) == 3


def test_a_selection_that_matches_nothing_says_so():
    _, [selection] = chosen(Ask("reason", "nothing"))
    assert selection.left_out == "--reason nothing: no sample"


def test_reasons_are_those_of_failed_checks():
    assert candidate_of(MIXED[2].judgement()).reasons == {"length_in_think"}


@given(st.lists(st.integers()), st.integers(min_value=0, max_value=6))
def test_lowest_is_the_head_of_a_stable_sort(keys, size):
    lowest = Lowest(size)
    for position, key in enumerate(keys):
        lowest.offer(key, str(position))
    expected = sorted(range(len(keys)), key=lambda i: keys[i])[:size]
    assert lowest.items() == [str(i) for i in expected]
