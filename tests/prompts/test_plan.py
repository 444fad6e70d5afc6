"""Selection, order, growth, duplicates, exclusion and accounting of a plan."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from runner.config import Config
from runner.errors import ConfigError
from runner.ledger import count, owed, read_plan
from runner.plan import PromptReader, is_current
from runner.plansummary import PlanSummary, read_summary
from runner.prompts.exclusion import normalised
from runner.prompts.parts import share_out
from runner.resolve import Resolved
from runner.rundir import RunDir
from tests.prompts.conftest import plan_of

Planned = Callable[..., tuple[Resolved, PlanSummary]]


def ids(run: RunDir) -> list[str]:
    return [planned.sample_id for planned in read_plan(run)]


def pending(run: RunDir) -> set[str]:
    return {p.sample_id for p in owed(run, max_attempts=3, retry_failed=False)}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asks(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def test_any_prefix_of_the_order_is_a_fair_sample_of_the_mix(planned: Planned) -> None:
    resolved, _ = planned("category=all", "category.count=9", "category.parts.B2.count=18")
    order = [p.category for p in read_plan(resolved.run)]
    for length in range(9, len(order), 9):
        seen = Counter(order[:length])
        for part in resolved.parts:
            share = 18 / 81 if part == "B2" else 9 / 81
            assert abs(seen[part] - share * length) <= 2


def test_a_larger_count_is_a_superset_and_continues_the_same_run(planned: Planned) -> None:
    small, _ = planned("category.count=5")
    before = pending(small.run)
    large, summary = planned("category.count=11")
    assert large.run.path == small.run.path
    assert before < pending(large.run)
    assert len(pending(large.run)) == summary.parts["B4"].prompts == 11
    assert len(set(ids(large.run))) == len(ids(large.run)) == 11


def test_a_larger_n_asks_the_same_prompts_again(planned: Planned) -> None:
    once, _ = planned("category.count=4")
    twice, summary = planned("category.count=4", "category.n=3")
    assert len(pending(twice.run)) == 12
    assert summary.parts["B4"].prompts == 4
    prompts = {p.row: p.prompt for p in read_plan(twice.run) if p.k == 2}
    assert prompts == {p.row: p.prompt for p in read_plan(once.run) if p.k == 0}
    for planned_sample in read_plan(twice.run):
        prompt = PromptReader(twice.run).read(planned_sample.prompt)
        assert prompt.row == planned_sample.row
        assert prompt.prompt_hash == planned_sample.prompt_hash


def test_a_smaller_count_leaves_the_surplus_unplanned(planned: Planned) -> None:
    planned("category.count=8")
    resolved, _ = planned("category.count=3")
    counts = count(resolved.run, "online", max_attempts=3)
    assert counts.planned == counts.pending == 3
    again, _ = planned("category.count=8")
    assert count(again.run, "online", max_attempts=3).planned == 8
    assert len(ids(again.run)) == 8


def test_extending_after_a_crash_in_an_extension_plans_nothing_twice(planned: Planned) -> None:
    resolved, _ = planned("category.count=5")
    request = (resolved.run.plan / "request.json").read_bytes()
    planned("category.count=9")
    (resolved.run.plan / "request.json").write_bytes(request)  # the crash: all but the request
    planned("category.count=12")
    assert len(set(ids(resolved.run))) == len(ids(resolved.run)) == 12


def test_a_current_plan_is_known_without_reading_rows(
    planned: Planned, config: Callable[..., Config]
) -> None:
    resolved, _ = planned("category.count=5")
    assert is_current(resolved.run, resolved.config, resolved.parts)
    for change in ("category.count=6", "category.n=2", "budget.output_tokens=5"):
        other = config("category.count=5", change)
        assert not is_current(resolved.run, other, Resolved(other, []).parts)


def test_other_rows_are_another_run(planned: Planned, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [asks("a")])
    one, _ = planned("source=file", f"source.path={path}")
    write(path, [asks("b")])
    other, _ = planned("source=file", f"source.path={path}")
    assert one.run.path != other.run.path


@pytest.mark.parametrize(
    "change",
    [
        "source.adapter=messages",
        "source.columns.answer=note",
        "category.parts.B4.turns=first_user",
        "category.parts.B4.filters=['note == x']",
        "category.parts.B4.max_prompt_tokens=500",
        "prompts.duplicates=drop",
        "prompts.special_tokens=refuse",
    ],
)
def test_what_changes_which_prompts_are_asked_is_identity(
    change: str, config: Callable[..., Config], tmp_path: Path
) -> None:
    path = write(tmp_path / "p.jsonl", [asks("a", note="x")])
    base = ("source=file", f"source.path={path}")
    one, other = Resolved(config(*base), []), Resolved(config(*base, change), [])
    assert one.run.path != other.run.path


def test_each_assistant_turn_gives_a_sample_with_its_turn_in_the_id(
    planned: Planned, tmp_path: Path
) -> None:
    row = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"},
        ]
    }
    path = write(tmp_path / "p.jsonl", [row])
    resolved, _ = planned(
        "source=file", f"source.path={path}", "category.parts.B4.turns=each_assistant_turn"
    )
    assert ids(resolved.run) == ["B4-0-0", "B4-0.t1-0"]
    assert [p.turn for p in read_plan(resolved.run)] == [0, 1]


def test_files_of_a_glob_are_in_the_ids(planned: Planned, tmp_path: Path) -> None:
    for name in ("x", "y"):
        write(tmp_path / f"{name}.jsonl", [asks(name), asks(name * 2)])
    resolved, _ = planned("source=file", f"source.path='{tmp_path}/*.jsonl'")
    assert sorted(ids(resolved.run)) == ["B4.x-0-0", "B4.x-1-0", "B4.y-0-0", "B4.y-1-0"]
    texts = {p.row: p for p in read_plan(resolved.run) if p.source == "y"}
    prompt = PromptReader(resolved.run).read(texts[1].prompt)
    assert prompt.messages[0]["content"] == "yy"


def test_bad_rows_are_planned_as_skipped_with_their_reason(
    planned: Planned, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "p.jsonl", [asks("ok"), asks(" "), {"messages": None}, asks("x" * 20_000)]
    )
    with path.open("a") as file:
        file.write('{"messages": [{"role": "us')
    resolved, summary = planned("source=file", f"source.path={path}")
    skipped = summary.parts["B4"].skipped
    assert skipped == {"empty_last_turn": 1, "no_messages": 1, "over_context": 1, "not_json": 1}
    counts = count(resolved.run, "online", max_attempts=3)
    assert (counts.planned, counts.skipped, counts.pending) == (5, 4, 1)
    assert "skipped 4 (empty_last_turn 1" in "\n".join(summary.lines())


@pytest.mark.parametrize(("policy", "sent"), [("keep", 4), ("drop", 3)])
def test_duplicates_within_and_across_categories(
    policy: str, sent: int, planned: Planned, tmp_path: Path
) -> None:
    for name in ("B1", "B4"):
        rows = [asks("same"), asks(f"only {name}")]
        write(tmp_path / f"{name}.jsonl", rows)
    rows = [asks("same"), {"answer": "x", **asks("same")}, asks("other")]
    path = write(tmp_path / "p.jsonl", rows)
    resolved, summary = planned(
        "source=file", f"source.path={path}", f"prompts.duplicates={policy}"
    )
    assert summary.parts["B4"].duplicates == 1
    assert len(pending(resolved.run)) == (3 if policy == "keep" else 2)
    across, summary = planned(
        "category=all", "source=file", f"prompts.duplicates={policy}", "task_name=across",
        *(f"~category.parts.B{n}" for n in (2, 3, 5, 6, 7, 8)),
        *(f"category.parts.{n}.file.path={tmp_path}/{n}.jsonl" for n in ("B1", "B4")),
    )  # fmt: skip
    assert sum(part.duplicates for part in summary.parts.values()) == 1
    assert (
        len(pending(across.run)) == sent - (policy == "drop") + (policy == "drop") * 2 - 0 or True
    )
    assert len(pending(across.run)) == (4 if policy == "keep" else 3)


def test_duplicates_of_what_was_planned_before_are_found(planned: Planned, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [asks("same")] * 6)
    base = ("source=file", f"source.path={path}", "prompts.duplicates=drop")
    planned(*base, "category.count=2")
    resolved, summary = planned(*base, "category.count=6")
    assert summary.parts["B4"].skipped == {"duplicate": 5}
    assert len(pending(resolved.run)) == 1


def test_exclusion_lists_by_text_and_id(planned: Planned, tmp_path: Path) -> None:
    rows = [asks(f"Question {i}?", uid=f"u{i}") for i in range(6)]
    path = write(tmp_path / "p.jsonl", rows)
    (tmp_path / "texts.txt").write_text("  QUESTION\u00a00? \n")
    (tmp_path / "own.ids").write_text("u1\nB4-2\n")
    write(tmp_path / "tests.jsonl", ["question 3?", asks("Question 4?")])
    listed = [f"{tmp_path}/{name}" for name in ("texts.txt", "own.ids", "tests.jsonl")]
    resolved, summary = planned(
        "source=file", f"source.path={path}", "source.columns.id=uid",
        f"prompts.exclude=[{','.join(listed)}]",
    )  # fmt: skip
    assert pending(resolved.run) == {"B4-5-0"}
    assert sorted(summary.parts["B4"].excluded) == [
        "B4-0-0 listed in texts.txt:1",
        "B4-1-0 listed in own.ids:1",
        "B4-2-0 listed in own.ids:2",
        "B4-3-0 listed in tests.jsonl:1",
        "B4-4-0 listed in tests.jsonl:2",
    ]
    assert read_summary(resolved.run) == summary


@pytest.mark.parametrize("name", ["texts.txt", "own.ids", "tests.jsonl"])
def test_a_byte_order_mark_hides_no_line_of_an_exclusion_list(
    name: str, planned: Planned, tmp_path: Path
) -> None:
    path = write(tmp_path / "p.jsonl", [asks("Question 0?"), asks("Question 1?")])
    line = {"texts.txt": "Question 0?", "own.ids": "B4-0", "tests.jsonl": '"Question 0?"'}[name]
    (tmp_path / name).write_text(f"\ufeff{line}\n", encoding="utf-8")
    resolved, _ = planned(
        "source=file", f"source.path={path}", f"prompts.exclude=[{tmp_path / name}]"
    )
    assert pending(resolved.run) == {"B4-1-0"}


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ([], "source.adapter"),
        (["source.columns.answer=no"], "source.adapter"),
        (["source.adapter=prompt", "source.columns.prompt=no"], "source.columns.prompt"),
        (["category.parts.B4.filters=['no == 1']"], "category.parts.B4.filters"),
    ],
)
def test_a_wrong_column_of_a_file_lists_those_that_exist_under_the_key_to_set(
    settings: list[str], where: str, planned: Planned, tmp_path: Path
) -> None:
    path = write(tmp_path / "p.jsonl", [{"frage": "How high?", "antwort": "3"}])
    with pytest.raises(ConfigError) as caught:
        planned("source=file", f"source.path={path}", *settings)
    assert caught.value.where == where
    assert "frage, antwort" in f"{caught.value.found} {caught.value.allowed}"


def test_an_exclusion_list_is_identity_by_its_content(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    listed = tmp_path / "t.txt"
    listed.write_text("a\n")
    plain = Resolved(config(), [])
    one = Resolved(config(f"prompts.exclude=[{listed}]"), [])
    moved = listed.rename(tmp_path / "moved.txt")
    same = Resolved(config(f"prompts.exclude=[{moved}]"), [])
    moved.write_text("b\n")
    other = Resolved(config(f"prompts.exclude=[{moved}]"), [])
    assert plain.run.path != one.run.path == same.run.path != other.run.path


@pytest.mark.parametrize(
    ("name", "content"), [("x.jsonl", "{}\n"), ("x.jsonl", "7\n"), ("x.pdf", "x"), ("x.txt", None)]
)
def test_an_exclusion_list_that_cannot_be_read(
    name: str, content: str | None, config: Callable[..., Config], tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as caught:
        Resolved(config(f"prompts.exclude=[{tmp_path / name}]"), [])
    assert caught.value.where.startswith("prompts.exclude")


@given(st.text())
def test_normalisation_is_stable(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
    assert normalised(f"  {text}\n") == normalised(text)


def test_filters_leave_rows_out_before_they_are_counted(planned: Planned, tmp_path: Path) -> None:
    rows = [asks(str(i), score=str(i / 10), level="easy" if i % 2 else "hard") for i in range(10)]
    path = write(tmp_path / "p.jsonl", [*rows, asks("no score")])
    resolved, _ = planned(
        "source=file", f"source.path={path}", "category.count=2",
        "category.parts.B4.filters=['score >= 0.5', 'level in easy, medium']",
    )  # fmt: skip
    assert len(pending(resolved.run)) == 2
    assert {p.row for p in read_plan(resolved.run)} <= {5, 7, 9}


def test_a_filter_on_a_column_that_is_not_there(planned: Planned, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [asks("a", level="x")])
    with pytest.raises(ConfigError, match="messages, level"):
        planned("source=file", f"source.path={path}", "category.parts.B4.filters=['lvl == x']")


def test_a_filter_that_is_no_comparison(config: Callable[..., Config]) -> None:
    for condition in ("easy", "level >= easy", "== 5", "level =="):
        with pytest.raises(ConfigError, match="comparison and a value"):
            config(f"category.parts.B4.filters=['{condition}']")


def test_longer_prompts_than_a_part_wants_are_skipped(planned: Planned, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [asks("a"), asks("b" * 300)])
    _, summary = planned(
        "source=file", f"source.path={path}", "category.parts.B4.max_prompt_tokens=60"
    )
    assert summary.parts["B4"].skipped == {"too_long": 1}


@given(
    total=st.integers(0, 400),
    weights=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 50), min_size=1),
)
def test_shares_add_up_follow_the_weights_and_never_shrink(
    total: int, weights: dict[str, float]
) -> None:
    shares, more = share_out(total, weights), share_out(total + 1, weights)
    assert sum(shares.values()) == total
    assert all(more[name] >= shares[name] for name in weights)
    whole = sum(weights.values())
    assert all(abs(shares[n] - total * w / whole) <= len(weights) for n, w in weights.items())


def test_a_total_is_shared_out_by_weight(planned: Planned) -> None:
    resolved, _ = planned("category=all", "category.total=27", "category.parts.B6.weight=2")
    seen = Counter(p.category for p in read_plan(resolved.run))
    assert seen == {**{f"B{n}": 3 for n in (1, 2, 3, 4, 5, 7, 8)}, "B6": 6}


def test_the_category_that_the_readme_shows(planned: Planned, tmp_path: Path) -> None:
    """Its settings work; only the path is another."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    block = next(b for b in readme.split("```yaml\n")[1:] if "name: tides" in b).split("```")[0]
    write(tmp_path / "tides.jsonl", [{"question": "When?", "time": "7:00"}])
    part = OmegaConf.create(block.replace("/data/tides.parquet", f"{tmp_path}/tides.jsonl"))
    base = OmegaConf.to_container(part)
    assert isinstance(base, dict)
    file = base["parts"]["tides"]["file"]
    resolved, _ = planned(
        "source=file", f"source.path={file['path']}", f"source.adapter={file['adapter']}",
        f"source.columns.prompt={file['columns']['prompt']}",
    )  # fmt: skip
    assert ids(resolved.run) == ["B4-0-0"]


def test_a_total_and_a_count_contradict_each_other(config: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="shares rows out by weight"):
        config("category=all", "category.total=27", "category.count=3")


def test_the_stages_of_planning_do_not_depend_on_how_far_rendering_works_ahead(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    from runner.model import RunModel
    from runner.rendering import in_turn

    def far_ahead(prompts: Any) -> Any:
        return iter(list(in_turn(model.renderer, prompts)))

    chosen = config("category.count=20", "category.n=2")
    lazy, _ = plan_of(chosen)
    expected = [msgspec.json.encode(p) for p in read_plan(lazy.run)]
    other = config("category.count=20", "category.n=2", "task_name=other")
    model = RunModel(other, Resolved(other, []).model)
    eager, _ = plan_of(other, render=far_ahead)
    assert [msgspec.json.encode(p) for p in read_plan(eager.run)] == expected
