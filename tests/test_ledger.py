"""The accounting of a run as its files tell it."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.ledger import (
    account,
    count,
    fold,
    get_sample,
    losses,
    owed,
    read_judgements,
    read_plan,
    read_samples,
    selection_hash,
    supersede_other_prompts,
    verdicts_missing,
)
from runner.records import Counts
from runner.selection import MAX_U64
from runner.stats import Stats
from runner.superseded import Superseded, supersede
from tests.runkit import MOST, Kit, failure, judgement, planned, sample


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "run")


def ids(kit: Kit, *, retry_failed: bool = False) -> list[str]:
    return [s.sample_id for s in owed(kit.run, max_attempts=MOST, retry_failed=retry_failed)]


def counted(kit: Kit) -> Counts:
    return count(kit.run, "online", max_attempts=MOST)


def name(row: int) -> str:
    return f"B4-{row}-0"


def drop(kit: Kit, row: int, try_: int = 0) -> None:
    of = planned(row)
    one = Superseded(
        sample_id=of.sample_id, try_=try_, prompt_hash=of.prompt_hash, reason="r", at=1.0
    )
    supersede(kit.run, [one])


def test_a_run_without_a_whole_plan_owes_nothing(kit: Kit) -> None:
    assert (counted(kit), ids(kit)) == (Counts(), [])


def test_each_state_is_counted_once(kit: Kit) -> None:
    rows = [planned(n, skip="empty: x" if n == 5 else "") for n in range(7)]
    kit.plan(rows)
    made = [sample(rows[n]) for n in (0, 1, 2)]
    kit.samples(made)
    kit.judge([judgement(made[0]), judgement(made[1], rejected=True)])
    kit.fail(failure(rows[3]), failure(rows[4], requests=1))
    assert counted(kit) == Counts(planned=7, ok=1, rejected=1, failed=1, skipped=1, pending=3)
    assert ids(kit) == [name(4), name(6)]  # 2 is made and not judged yet
    assert losses(kit.run, "online", max_attempts=MOST) == ({"broken": 1}, {"empty": 1})


def test_what_is_owed_comes_in_sending_order_and_only_what_is_owed(kit: Kit) -> None:
    rows = [planned(n) for n in (5, 3, 9, 1)]
    kit.plan(rows)
    kit.samples([sample(rows[1])])
    assert ids(kit) == [name(5), name(9), name(1)]


def test_failures_add_up_over_attempts_until_max_attempts(kit: Kit) -> None:
    rows = [planned(1)]
    kit.plan(rows)
    kit.fail(failure(rows[0], requests=3))
    (one,) = owed(kit.run, max_attempts=MOST, retry_failed=False)
    assert one.asked == 3
    kit.fail(failure(rows[0], requests=1))
    assert ids(kit) == []
    (again,) = owed(kit.run, max_attempts=MOST, retry_failed=True)
    assert again.asked == 0  # a fresh allowance


def test_a_permanent_failure_is_not_asked_again_by_itself(kit: Kit) -> None:
    rows = [planned(1)]
    kit.plan(rows)
    kit.fail(failure(rows[0], requests=1, permanent=True))
    assert ids(kit) == []
    assert ids(kit, retry_failed=True) == [name(1)]


def test_a_failed_sample_that_was_made_later_is_ok(kit: Kit) -> None:
    rows = [planned(1)]
    kit.plan(rows)
    kit.fail(failure(rows[0]))
    made = sample(rows[0])
    kit.samples([made])
    kit.judge([judgement(made)])
    assert counted(kit) == Counts(planned=1, ok=1)


def test_a_torn_last_line_of_failures_is_owed_again(kit: Kit) -> None:
    rows = [planned(1), planned(2)]
    kit.plan(rows)
    kit.fail(failure(rows[0]), failure(rows[1]))
    whole = kit.run.failures.read_bytes()
    kit.run.failures.write_bytes(whole[:-9])
    assert ids(kit) == [name(2)]
    kit.fail(failure(rows[1]))  # ends the torn line first
    assert ids(kit) == []


def test_a_superseded_sample_is_owed_as_the_next_try_and_then_counts_once(kit: Kit) -> None:
    rows = [planned(1)]
    kit.plan(rows)
    old = sample(rows[0])
    kit.samples([old])
    kit.judge([judgement(old, rejected=True)])
    drop(kit, 1)
    (one,) = owed(kit.run, max_attempts=MOST, retry_failed=False)
    assert one.try_ == 1
    assert list(read_samples(kit.run)) == list(read_judgements(kit.run, "online")) == []
    assert get_sample(kit.run, name(1)) is None
    new = sample(rows[0], try_=1)
    kit.samples([new])
    assert verdicts_missing(kit.run, "online")[1].tolist() == [False, True]
    kit.judge([judgement(new)])
    assert account(kit.run, "online", max_attempts=MOST).superseded == 1
    assert counted(kit) == Counts(planned=1, ok=1)
    assert [s.try_ for s in read_samples(kit.run)] == [1]
    assert get_sample(kit.run, name(1)) == new


def test_what_an_earlier_try_met_does_not_fail_the_next(kit: Kit) -> None:
    rows = [planned(1)]
    kit.plan(rows)
    kit.fail(failure(rows[0], permanent=True))
    kit.samples([sample(rows[0])])
    drop(kit, 1)
    assert ids(kit) == [name(1)]
    kit.fail(failure(rows[0], try_=1))
    assert ids(kit) == []


def test_a_sample_of_another_prompt_is_not_this_one(kit: Kit) -> None:
    kit.plan([planned(1, version=1)])
    old = sample(planned(1))
    kit.samples([old])
    kit.judge([judgement(old)])
    assert ids(kit) == [name(1)]
    assert account(kit.run, "online", max_attempts=MOST).unplanned == 1


def test_a_later_line_of_the_plan_replaces_the_earlier_one(kit: Kit) -> None:
    kit.plan([planned(1), planned(2)])
    kit.plan([planned(1, version=1)])
    assert [one.prompt_hash for one in read_plan(kit.run)] == [
        planned(2).prompt_hash,
        planned(1, version=1).prompt_hash,
    ]
    assert counted(kit).planned == 2


def test_shrinking_deletes_nothing_and_shows_the_surplus(kit: Kit) -> None:
    rows = [planned(n) for n in range(20)]
    kit.plan(rows)
    made = [sample(one) for one in rows]
    kit.samples(made)
    kit.judge(judgement(one) for one in made)
    hashes = sorted(selection_hash(42, "B4", "", n) for n in range(20))
    kit.request(threshold=hashes[7])
    accounts = account(kit.run, "online", max_attempts=MOST)
    assert (accounts.counts, accounts.unplanned) == (Counts(planned=8, ok=8), 12)
    kit.request(threshold=MAX_U64, n=0)
    assert account(kit.run, "online", max_attempts=MOST).unplanned == 20
    kit.request()
    assert counted(kit) == Counts(planned=20, ok=20)


def test_a_part_that_was_taken_out_is_unplanned(kit: Kit) -> None:
    rows = [planned(1), planned(1, part="B5")]
    kit.plan(rows, parts=("B4", "B5"))
    made = [sample(one) for one in rows]
    kit.samples(made)
    kit.judge(judgement(one) for one in made)
    kit.request(parts=("B5",))
    accounts = account(kit.run, "online", max_attempts=MOST)
    assert (accounts.counts, accounts.unplanned) == (Counts(planned=1, ok=1), 1)


def test_a_stale_selection_is_not_believed(kit: Kit) -> None:
    kit.plan([planned(n) for n in range(6)])
    (kept,) = kit.run.plan.glob("selection-*.npy")
    kit.request(n=0)
    (newer,) = kit.run.plan.glob("selection-*.npy")
    assert kept.name != newer.name
    assert counted(kit).planned == 0
    newer.unlink()
    assert counted(kit).planned == 0


def test_a_spent_budget_skips_what_is_pending(kit: Kit) -> None:
    rows = [planned(n) for n in range(5)]
    kit.plan(rows)
    made = [sample(one) for one in rows[:2]]  # 3 output tokens each
    kit.samples(made)
    kit.judge(judgement(one) for one in made)
    kit.request(budget_tokens=8)
    assert counted(kit) == Counts(planned=5, ok=2, skipped=3)
    kit.request(budget_tokens=9)
    assert counted(kit) == Counts(planned=5, ok=2, pending=3)


def test_the_fold_is_that_of_one_judgement_after_another(kit: Kit) -> None:
    made = [sample(planned(n)) for n in range(50)]
    kit.judge(judgement(s, rejected=s.row % 7 == 0, reason="x" * (s.row % 3)) for s in made)
    slow = Stats()
    for one in read_judgements(kit.run, "online"):
        slow.add(one)
    assert fold(kit.run, "online").categories == slow.categories or _same(
        fold(kit.run, "online").all(), slow.all()
    )


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    details=st.lists(
        st.text(max_size=30)
        | st.sampled_from(['"', "\\", '","detail":"x', ',"detail":"', '\\","severity":"reject'])
    )
)
def test_what_a_verdict_says_in_words_changes_no_figure(
    tmp_path_factory: pytest.TempPathFactory, details: list[str]
) -> None:
    kit = Kit(tmp_path_factory.mktemp("details") / "run")
    made = []
    for row, detail in enumerate(details):
        one = judgement(sample(planned(row)), reason="x")
        said = {
            name: msgspec.structs.replace(verdict, detail=detail, score=0.5)
            for name, verdict in one.verdicts.items()
        }
        made.append(msgspec.structs.replace(one, verdicts=said))
    kit.judge(made)
    slow = Stats()
    for one in made:
        slow.add(one)
    assert _same(fold(kit.run, "online").all(), slow.all())


def _same(one: object, other: object) -> bool:
    left, right = dict(vars(one)), dict(vars(other))
    lengths = (left.pop("lengths"), right.pop("lengths"))
    return left == right and all(
        lengths[0][key].counts == lengths[1][key].counts for key in lengths[0]
    )


@dataclass
class Model:
    """What a person with a notebook would know of the run."""

    rows: dict[str, int] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)

    def counts(self) -> Counts:
        states = list(self.state.values())
        parts = {key: states.count(key) for key in ("ok", "rejected", "failed", "skipped")}
        return Counts(planned=len(states), pending=states.count("pending"), **parts)


STEPS = st.lists(
    st.sampled_from(["grow", "attempt", "requeue", "lose verdicts", "retry"]), max_size=7
)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_any_history_balances_and_makes_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    rng = random.Random(seed)
    kit, model = Kit(tmp_path_factory.mktemp("history") / "run"), Model()
    for step in ["grow", *steps, "attempt"]:
        if step == "grow":
            _grow(kit, model, rng)
        elif step == "requeue":
            _requeue(kit, model, rng)
        elif step in ("attempt", "retry"):
            _attempt(kit, model, rng, retry_failed=step == "retry")
        accounts = account(kit.run, "online", max_attempts=MOST)
        assert accounts.counts == model.counts(), step
        assert accounts.counts.balanced
        assert accounts.unplanned == 0
    made = [(s.sample_id, s.try_) for s in read_samples(kit.run)]
    assert len({key for key, _ in made}) == len(made)
    assert dict(made) == {
        key: model.tries[key] for key, is_ in model.state.items() if is_ in ("ok", "rejected")
    }


def _grow(kit: Kit, model: Model, rng: random.Random) -> None:
    first = len(model.rows)
    new = []
    for row in range(first, first + rng.randint(1, 8)):
        one = planned(row, skip="empty: x" if rng.random() < 0.2 else "")
        model.rows[one.sample_id] = row
        model.state[one.sample_id] = "skipped" if one.skip else "pending"
        model.tries[one.sample_id] = model.requests[one.sample_id] = 0
        new.append(one)
    kit.plan(new)


def _attempt(kit: Kit, model: Model, rng: random.Random, *, retry_failed: bool) -> None:
    """Some of what is owed is answered, some fails, and the rest is not reached."""
    due = list(owed(kit.run, max_attempts=MOST, retry_failed=retry_failed))
    wanted = ("pending", "failed") if retry_failed else ("pending",)
    assert [s.sample_id for s in due] == [k for k, is_ in model.state.items() if is_ in wanted]
    for one in due:
        key, luck = one.sample_id, rng.random()
        assert one.try_ == model.tries[key]
        if luck < 0.3:
            continue
        if luck < 0.5:
            requests = rng.randint(1, MOST)
            kit.fail(failure(planned(one.row), requests=requests, try_=one.try_))
            model.requests[key] += requests
            model.state[key] = "failed" if model.requests[key] >= MOST else "pending"
        else:
            made = sample(planned(one.row), try_=one.try_)
            kit.samples([made])
            kit.judge([judgement(made, rejected=luck > 0.9)])
            model.state[key] = "rejected" if luck > 0.9 else "ok"


def _requeue(kit: Kit, model: Model, rng: random.Random) -> None:
    for key, is_ in model.state.items():
        if is_ in ("ok", "rejected") and rng.random() < 0.4:
            drop(kit, model.rows[key], model.tries[key])
            model.state[key] = "pending"
            model.tries[key] += 1
            model.requests[key] = 0


def test_superseded_lines_are_plain_json(kit: Kit) -> None:
    drop(kit, 3, 2)
    (line,) = kit.run.superseded.read_bytes().splitlines()
    assert msgspec.json.decode(line)["try"] == 2


def test_a_prompt_that_changed_under_its_row_is_asked_again(kit: Kit) -> None:
    rows = [planned(1), planned(2)]
    kit.plan(rows)
    made = [sample(one) for one in rows]
    kit.samples(made)
    kit.judge(judgement(one) for one in made)
    kit.plan([planned(1, version=1)])
    assert supersede_other_prompts(kit.run) == 1
    assert supersede_other_prompts(kit.run) == 0
    (due,) = owed(kit.run, max_attempts=MOST, retry_failed=False)
    assert (due.sample_id, due.try_, due.prompt_hash) == (
        name(1),
        1,
        planned(1, version=1).prompt_hash,
    )
    accounts = account(kit.run, "online", max_attempts=MOST)
    assert (accounts.counts, accounts.unplanned) == (Counts(planned=2, ok=1, pending=1), 0)
