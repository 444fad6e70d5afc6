"""A budget admits in time, waits where answers in flight decide, and balances the accounting."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.budget import WHOLE, Budget, cut_off, reached
from runner.cli import main
from runner.config import Config
from runner.errors import ConfigError


def spend_all(
    answers: list[tuple[str, int]], limits: dict[str, int | None], concurrency: int
) -> tuple[list[tuple[str, int]], Budget]:
    """Send all answers in order with some senders; what was sent, and the budget."""
    parts = {part for part, _ in answers} or {"a"}
    budget = Budget(limits, guesses=dict.fromkeys(parts, 10), spent={})
    sent: list[tuple[str, int]] = []
    todo = iter(answers)

    async def sender() -> None:
        for part, tokens in todo:
            if not await budget.admit(part):
                continue
            await asyncio.sleep(0)
            sent.append((part, tokens))
            budget.spend(part, tokens)
            budget.settled(part)

    async def run() -> None:
        await asyncio.wait_for(asyncio.gather(*(sender() for _ in range(concurrency))), 20)

    asyncio.run(run())
    return sent, budget


ANSWERS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 30)), max_size=60)


@settings(deadline=None, max_examples=60)
@given(
    answers=ANSWERS,
    whole=st.none() | st.integers(1, 400),
    part=st.none() | st.integers(1, 200),
    concurrency=st.integers(1, 6),
)
def test_nothing_waits_for_ever_and_the_rest_is_cut_off(
    answers: list[tuple[str, int]], whole: int | None, part: int | None, concurrency: int
) -> None:
    limits = {WHOLE: whole, "a": part}
    sent, _ = spend_all(answers, limits, concurrency)
    spent: dict[str, tuple[int, int]] = {}
    for name, tokens in sent:
        before = spent.get(name, (0, 0))
        spent[name] = before[0] + tokens, before[1] + 1
    for name in "ab":
        left = sum(1 for n, _ in answers if n == name) - spent.get(name, (0, 0))[1]
        assert left == 0 or cut_off(limits, spent, name)
    for scope, limit in limits.items():
        used = [tokens for name, tokens in sent if scope in (WHOLE, name)]
        if limit is not None and used:
            assert sum(used) <= max(limit, 10) + 30 * concurrency


def test_equal_answers_never_exceed_the_budget() -> None:
    sent, budget = spend_all([("a", 10)] * 50, {WHOLE: 205}, 8)
    assert len(sent) == 20
    assert budget.is_reached


def test_a_part_with_a_spent_budget_leaves_the_others_going() -> None:
    sent, budget = spend_all([("a", 10), ("b", 10)] * 10, {"a": 30}, 2)
    assert [name for name, _ in sent].count("a") == 3
    assert [name for name, _ in sent].count("b") == 10
    assert not budget.is_reached


def test_one_sample_is_always_sent() -> None:
    assert len(spend_all([("a", 10)] * 5, {WHOLE: 1}, 3)[0]) == 1


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 1000))
def test_what_is_reached_stays_reached_by_any_smaller_limit(
    limit: int, tokens: int, samples: int
) -> None:
    if reached(limit, tokens, samples):
        assert reached(limit - 1, tokens, samples)
    assert not reached(None, tokens, samples)


def test_a_budget_of_a_part_needs_a_number(config: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        config("category.parts.B4.budget_tokens=0")


def run(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> int:
    monkeypatch.setattr("sys.argv", ["rawtok", "tracking=none", *overrides])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def state(outputs: Path) -> dict[str, object]:
    (found,) = outputs.glob("default/*/run.json")
    return json.loads(found.read_text())


def test_a_run_stops_at_its_budget_and_a_larger_one_continues_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = (
        "category.count=12", "sampling.max_new_tokens=24", "sampling.ignore_eos=true",
        "canary.count=2", "breaker.enabled=false", "canary.max_rejected=1.0",
        "client.concurrency=2", f"paths.outputs={tmp_path}",
    )  # fmt: skip
    assert run(monkeypatch, *base, "budget.output_tokens=120") == 0
    first = state(tmp_path)
    counts = first["counts"]
    assert first["status"] == "done"
    assert counts["planned"] == 12
    assert counts["pending"] == 0
    assert 0 < counts["skipped"] < 12
    assert first["tokens"]["output"] <= 120
    assert f"skipped: budget {counts['skipped']}" in capsys.readouterr().out
    assert run(monkeypatch, *base, "budget.output_tokens=120") == 0
    assert state(tmp_path)["attempts"] == 1
    assert run(monkeypatch, *base, "budget.output_tokens=null") == 0
    last = state(tmp_path)
    assert last["counts"]["skipped"] == 0
    assert last["counts"]["ok"] + last["counts"]["rejected"] == 12
