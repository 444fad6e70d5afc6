"""A source that says it is the same and gives other content: noticed, refused, or asked again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.errors import ConfigError
from runner.ledger import count, owed, read_plan
from runner.plan import PromptReader
from runner.plansummary import PlanSummary
from runner.resolve import Resolved
from runner.rundir import RunDir
from tests.runkit import sample, write

Planned = Callable[..., tuple[Resolved, PlanSummary]]


class Liar:
    """Three rows whose second one changes while the fingerprint stays."""

    text = "old"
    fingerprint = "always the same"

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in range(3):
            asked = f"row {row} {self.text if row == 1 else ''}"
            yield {"messages": [{"role": "user", "content": asked}]}


SOURCE = [
    "source=custom",
    "category.parts.B4.custom={_target_: tests.prompts.test_changed_prompts.Liar}",
]


@pytest.fixture
def begun(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> Resolved:
    """All three rows are planned and made; then the second one changes."""
    resolved, _ = planned(*SOURCE)
    write(resolved.run.samples, [sample(one) for one in read_plan(resolved.run)])
    monkeypatch.setattr(Liar, "text", "new")
    return resolved


def test_it_is_refused_with_the_row_named(planned: Planned, begun: Resolved) -> None:
    with pytest.raises(ConfigError, match=r"B4-1-0(.|\n)*resume.accept=\[prompts\]"):
        planned(*SOURCE, "category.n=2")


def test_accepted_its_samples_are_superseded_and_asked_again(
    planned: Planned, begun: Resolved
) -> None:
    grown, _ = planned(*SOURCE, "category.n=2", "resume.accept=[prompts]")
    assert grown.run.path == begun.run.path
    due = {one.sample_id: one for one in owed(grown.run, max_attempts=4, retry_failed=False)}
    assert sorted(due) == ["B4-0-1", "B4-1-0", "B4-1-1", "B4-2-1"]
    assert {key: one.try_ for key, one in due.items() if one.try_} == {"B4-1-0": 1}
    for one in due.values():
        prompt = PromptReader(grown.run).read(one.prompt)
        assert (prompt.row, prompt.prompt_hash) == (one.row, one.prompt_hash)
    assert PromptReader(grown.run).read(due["B4-1-0"].prompt).messages[0]["content"] == "row 1 new"


def test_accepted_without_growth_every_row_is_looked_at_again(
    planned: Planned, begun: Resolved
) -> None:
    again, _ = planned(*SOURCE)
    assert list(owed(again.run, max_attempts=4, retry_failed=False)) == []
    again, _ = planned(*SOURCE, "resume.accept=[prompts]")
    (due,) = owed(again.run, max_attempts=4, retry_failed=False)
    assert (due.sample_id, due.try_) == ("B4-1-0", 1)
    again, _ = planned(*SOURCE, "resume.accept=[prompts]")
    assert len(list(owed(again.run, max_attempts=4, retry_failed=False))) == 1


def test_a_crash_before_the_old_samples_are_named_leaves_that_to_the_next_attempt(
    planned: Planned, begun: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_run: RunDir) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("runner.plan.supersede_other_prompts", crash)
        with pytest.raises(KeyboardInterrupt):
            planned(*SOURCE, "resume.accept=[prompts]")
    again, _ = planned(*SOURCE)
    (due,) = owed(again.run, max_attempts=4, retry_failed=False)
    assert (due.sample_id, due.try_) == ("B4-1-0", 1)


def test_a_row_that_has_no_prompt_any_more_is_another_one(
    planned: Planned, begun: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Liar, "__iter__", lambda _self: iter([{"messages": [{"role": "oops"}]}] * 3)
    )
    with pytest.raises(ConfigError, match="content of a prompt changed under its row"):
        planned(*SOURCE, "category.n=2")
    gone, _ = planned(*SOURCE, "resume.accept=[prompts]")
    counts = count(gone.run, "online", max_attempts=4)
    assert (counts.planned, counts.skipped) == (3, 3)
    monkeypatch.undo()
    back, _ = planned(*SOURCE, "resume.accept=[prompts]")
    due = list(owed(back.run, max_attempts=4, retry_failed=False))
    assert [one.try_ for one in due] == [1, 1, 1]


class Many(Liar):
    """As after a change of the code that makes prompts of rows: most of them are others."""

    def __len__(self) -> int:
        return 400

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in range(400):
            yield {"messages": [{"role": "user", "content": f"row {row} {self.text}"}]}


MANY = [SOURCE[0], SOURCE[1].replace("Liar", "Many")]


def test_a_larger_plan_looks_at_some_of_the_old_rows(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, _ = planned(*MANY, "category.count=200")
    planned(*MANY, "category.count=250")
    monkeypatch.setattr(Many, "text", "new")
    with pytest.raises(ConfigError, match="content of a prompt changed under its row"):
        planned(*MANY, "category.count=300")
    grown, summary = planned(*MANY, "category.count=300", "resume.accept=[prompts]")
    assert summary.parts["B4"].prompts == 300
    assert grown.run.path == begun.run.path
    prompts = PromptReader(grown.run)
    due = list(owed(grown.run, max_attempts=4, retry_failed=False))
    assert len(due) == 300
    assert all(prompts.read(one.prompt).messages[0]["content"].endswith("new") for one in due)
