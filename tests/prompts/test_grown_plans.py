"""A plan that grows: what was planned stays as it was, and a duplicate is one of another row."""

import json
from collections.abc import Callable
from pathlib import Path

from runner.ledger import count, owed, read_plan
from runner.plansummary import PlanSummary
from runner.resolve import Resolved
from runner.rundir import RunDir

Planned = Callable[..., tuple[Resolved, PlanSummary]]


def write(path: Path, texts: list[str]) -> Path:
    rows = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pending(run: RunDir) -> list[str]:
    return sorted(one.sample_id for one in owed(run, max_attempts=4, retry_failed=False))


def test_more_samples_of_a_prompt_are_no_duplicates_of_the_first(
    planned: Planned, tmp_path: Path
) -> None:
    path = write(tmp_path / "p.jsonl", ["a", "b", "b"])
    base = ("source=file", f"source.path={path}", "prompts.duplicates=drop")
    resolved, _ = planned(*base)
    once = pending(resolved.run)
    assert len(once) == 2
    grown, summary = planned(*base, "category.n=3")
    assert grown.run.path == resolved.run.path
    assert pending(grown.run) == sorted(f"{one[:-1]}{k}" for one in once for k in range(3))
    assert count(grown.run, "online", max_attempts=4).skipped == 3
    assert (summary.parts["B4"].prompts, summary.parts["B4"].skipped) == (2, {"duplicate": 1})


def test_all_at_once_is_the_same_plan(planned: Planned, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", ["a", "b", "b", "c", "a"])
    base = ("source=file", f"source.path={path}", "prompts.duplicates=drop")
    planned(*base, "category.count=3")
    planned(*base, "category.count=3", "category.n=2")
    grown, _ = planned(*base, "category.n=2")
    whole, _ = planned(*base, "category.n=2", "task_name=whole")
    answered = [len({one.partition("-")[2] for one in pending(run.run)}) for run in (grown, whole)]
    assert answered == [6, 6]


def test_a_bad_turn_of_a_row_is_skipped_and_the_others_are_asked(
    planned: Planned, tmp_path: Path
) -> None:
    said = [("user", "a"), ("assistant", "b"), ("user", " "), ("assistant", "c"), ("user", "d")]
    messages = [{"role": role, "content": text} for role, text in said]
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"messages": messages}) + "\n")
    base = ("source=file", f"source.path={path}")
    turns = "category.parts.B4.turns=each_assistant_turn"
    resolved, summary = planned(*base, turns)
    assert pending(resolved.run) == ["B4-0-0", "B4-0.t2-0"]
    assert {one.sample_id: one.skip for one in read_plan(resolved.run) if one.skip} == {
        "B4-0.t1-0": "empty_last_turn: the last user turn holds no text"
    }
    assert summary.parts["B4"].skipped == {"empty_last_turn": 1}
    grown, _ = planned(*base, turns, "category.n=2")
    assert len(pending(grown.run)) == 4
