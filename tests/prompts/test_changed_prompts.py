"""A source that says it is the same and gives other content: noticed, refused, or asked again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.errors import ConfigError
from runner.ledger import owed, read_plan
from runner.plan import PromptReader
from runner.plansummary import PlanSummary
from runner.resolve import Resolved
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
