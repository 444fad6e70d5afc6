"""The whole of an export: accounting, several runs, order."""

import json
from collections import Counter
from operator import itemgetter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.export import Policy, Request, export
from runner.ledger import read_samples
from runner.rundir import RunDir
from runner.superseded import Superseded
from tests.export.conftest import Export, lines
from tests.export.conftest import given as as_input
from tests.runs.conftest import (
    MIXED,
    PROFILE,
    MakeRun,
    Spec,
    append,
    failing,
    hash_of,
    write_plan,
    write_tokenizer,
)

MANY = [Spec(row, category="B4" if row % 3 else "B5") for row in range(40)]


def reasons(folder: Path) -> dict[str, str]:
    return {line["sample_id"]: line["reason"] for line in lines(folder / "left_out.jsonl")}


def test_every_current_sample_is_exported_or_named(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    manifest = exported(make_run([*MIXED, Spec(9, state="unjudged")]))
    assert manifest.counts.samples == 6
    assert manifest.counts.exported == 4
    assert reasons(tmp_path / "out") == {"B4-3-0": "rejected", "B4-9-0": "unjudged"}
    assert manifest.left_out == {
        "B4": {"rejected: ids.unassigned": 1, "unjudged: no verdict of this set": 1}
    }


STATES = st.sampled_from(["done", "pending", "failed", "skipped", "unjudged"])
FINDINGS = st.sampled_from(["", "reject", "flag", "info"])


@settings(
    max_examples=12,
    deadline=None,
)
@given(states=st.lists(st.tuples(STATES, FINDINGS), min_size=1, max_size=12), drop=st.booleans())
def test_the_accounting_comes_out_even(
    states: list[tuple[str, str]], drop: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    specs = [
        Spec(row, state=state, verdicts={"v": failing("x", severity)} if severity else {})
        for row, (state, severity) in enumerate(states)
    ]
    run = RunDir(folder / "run")
    run.path.mkdir()
    write_plan(run, specs)
    write_tokenizer(run)
    append(run.samples, (s.sample() for s in specs if s.state in ("done", "unjudged")))
    append(run.verdicts("online"), (s.judgement() for s in specs if s.state == "done"))
    request = Request(policy=Policy(drop=["flag"] if drop else []))
    manifest = export([as_input(run)], folder / "out", request, say=lambda text: None)
    exported = {row["id"] for row in lines(folder / "out" / "train")}
    named = set(reasons(folder / "out"))
    there = {s.sample_id for s in specs if s.state in ("done", "unjudged")}
    assert exported | named == there
    assert not exported & named
    assert manifest.counts.samples == len(there)
    wrong = ("reject", "flag") if drop else ("reject",)
    assert exported == {
        s.sample_id
        for s, (state, severity) in zip(specs, states, strict=True)
        if state == "done" and severity not in wrong
    }


def test_several_runs_are_joined_and_their_ids_stay_apart(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    runs = [make_run([Spec(0), Spec(1)], name=name) for name in ("one-aaaaaaaa", "two-bbbbbbbb")]
    manifest = exported(*runs)
    ids = [row["id"] for row in lines(tmp_path / "out" / "train")]
    assert ids == [
        f"{name}/B4-{row}-0" for name in ("one-aaaaaaaa", "two-bbbbbbbb") for row in (0, 1)
    ]
    assert [(run.run_id, run.samples) for run in manifest.runs] == [
        ("one-aaaaaaaa", 2),
        ("two-bbbbbbbb", 2),
    ]


def test_a_run_named_twice_is_refused(make_run: MakeRun, exported: Export) -> None:
    run = make_run(MIXED)
    with pytest.raises(ConfigError, match="twice"):
        exported(run, run)


def test_ids_of_different_tokenizers_are_not_mixed(make_run: MakeRun, exported: Export) -> None:
    other = msgspec.structs.replace(PROFILE, tokenizer_sha256="1" * 64)
    runs = [
        as_input(make_run([Spec(0)], name="one-aaaaaaaa")),
        as_input(make_run([Spec(0)], name="two-bbbbbbbb"), profile=other),
    ]
    for to in ("pretokenized", "parquet", "vocabulary"):
        with pytest.raises(ConfigError, match="tokenizers"):
            exported(*runs, to=to, out=to)
    assert exported(*runs, to="messages", out="text").counts.exported == 2


def test_a_sample_that_was_asked_again_is_exported_once_as_it_is_now(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    old = Spec(0, try_=0, verdicts={"vocab": failing("unassigned", "reject")})
    new = Spec(0, try_=1, output="New.</think>It is new.<|im_end|>")
    run = make_run([old])
    append(run.samples, [new.sample()])
    append(run.verdicts("online"), [new.judgement()])
    exported(run)
    (row,) = lines(tmp_path / "out" / "train")
    assert row["input_ids"] == new.sample().input_ids + new.sample().output_ids


def test_the_verdict_on_an_earlier_try_does_not_count(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(0, try_=0)])
    append(run.samples, [Spec(0, try_=1).sample()])
    exported(run)
    assert reasons(tmp_path / "out") == {"B4-0-0": "unjudged"}


def test_a_superseded_sample_is_not_current(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(0, try_=0), Spec(1)])
    line = Superseded(sample_id="B4-0-0", try_=0, prompt_hash=hash_of(0), reason="asked", at=1.0)
    (run.samples / "superseded.jsonl").write_bytes(msgspec.json.encode(line) + b"\n")
    assert exported(run).counts.samples == len(list(read_samples(run))) == 1


def test_verdicts_in_any_order_are_joined(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(row, state="unjudged") for row in range(20)])
    judged = [
        Spec(row, verdicts={"v": failing("x", "reject")} if row % 2 else {}) for row in range(20)
    ]
    append(run.verdicts("online"), (spec.judgement() for spec in reversed(judged)))
    exported(run)
    assert [row["metadata"]["row"] for row in lines(tmp_path / "out" / "train")] == [
        *range(0, 20, 2)
    ]


def test_what_the_plan_does_not_want_any_more_is_left_out_unless_asked_for(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(row) for row in range(10)])
    request = json.loads((run.plan / "request.json").read_text())
    request["parts"]["B4"]["threshold"] = 2**63
    (run.plan / "request.json").write_text(json.dumps(request))
    manifest = exported(run)
    assert 0 < manifest.counts.left_out < 10
    assert set(reasons(tmp_path / "out").values()) == {"unplanned"}
    assert exported(run, out="all", keep_unplanned=True).counts.exported == 10


def test_balance_takes_as_many_of_each_category(make_run: MakeRun, exported: Export) -> None:
    run = make_run(MANY)
    smallest = exported(run, balance="smallest")
    assert {name: one.samples for name, one in smallest.categories.items()} == {"B4": 14, "B5": 14}
    five = exported(run, out="five", balance=5)
    assert {name: one.samples for name, one in five.categories.items()} == {"B4": 5, "B5": 5}
    assert five.left_out["B4"] == {"balance: more than the category may give": 21}


def test_a_split_is_by_prompt_and_stays_when_the_run_grows(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    small = make_run(MANY[:20], name="one-aaaaaaaa")
    large = make_run(MANY, name="two-bbbbbbbb")
    for name, run in (("small", small), ("large", large)):
        exported(run, out=name, split={"train": 0.7, "eval": 0.3})
    for side in ("train", "eval"):
        few = {row["id"] for row in lines(tmp_path / "small" / side)}
        many = {row["id"] for row in lines(tmp_path / "large" / side)}
        assert few
        assert few <= many
    assert not {r["id"] for r in lines(tmp_path / "large" / "train")} & {
        r["id"] for r in lines(tmp_path / "large" / "eval")
    }


def test_a_shuffle_is_an_order_of_the_same_samples(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MANY)
    orders = []
    for seed in (0, 1):
        exported(run, out=f"seed{seed}", shuffle=True, seed=seed)
        orders.append([row["id"] for row in lines(tmp_path / f"seed{seed}" / "train")])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(spec.sample_id for spec in MANY)


@pytest.mark.parametrize("buffered", [0, 2**26])
def test_a_shuffle_over_many_files_and_runs_is_one_order(
    make_run: MakeRun,
    tmp_path: Path,
    exported: Export,
    monkeypatch: pytest.MonkeyPatch,
    buffered: int,
) -> None:
    """Samples are dealt out on disk, and come as they would in one file, each with its own line."""
    monkeypatch.setattr("runner.export.dealing.BUFFERED_BYTES", buffered)
    runs = [make_run(MANY, name="one-aaaaaaaa"), make_run(MANY[:30], name="two-bbbbbbbb")]
    exported(*runs, out="one", shuffle=True)
    exported(*runs, out="many", shuffle=True, part_bytes=2_000)
    exported(*runs, out="plain")
    assert len(list((tmp_path / "many" / "train").iterdir())) > 5
    one, many, plain = (lines(tmp_path / out / "train") for out in ("one", "many", "plain"))
    assert many == one != plain
    assert sorted(one, key=itemgetter("id")) == sorted(plain, key=itemgetter("id"))


def test_the_manifest_counts_what_the_files_hold(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    manifest = exported(make_run(MANY), part_bytes=3000, split={"train": 0.8, "eval": 0.2})
    assert {part.split for part in manifest.parts} == {"train", "eval"}
    for part in manifest.parts:
        rows = lines(tmp_path / "out" / part.file)
        assert part.samples == len(rows)
        assert part.supervised_tokens == sum(sum(row["loss_mask"]) for row in rows)
        assert part.bytes == (tmp_path / "out" / part.file).stat().st_size
    by_category = Counter(
        row["metadata"]["category"]
        for side in ("train", "eval")
        for row in lines(tmp_path / "out" / side)
    )
    assert by_category == {name: one.samples for name, one in manifest.categories.items()}


def test_a_run_without_a_sample_exports_nothing_and_says_so(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    manifest = exported(make_run([Spec(0, state="pending")]))
    assert manifest.counts.samples == 0
    assert (tmp_path / "out" / "left_out.jsonl").read_bytes() == b""
