"""`pretokenized`, id by id, over the families and by the rules of the trainers that read it."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from runner.ledger import read_samples
from runner.records import Sample
from tests.export.conftest import Export, family_run, lines
from tests.families.build import profile_named
from tests.families.shapes import FAMILIES
from tests.runs.conftest import MIXED, MakeRun, Spec, ids
from tests.validators.corpus import CORPUS

BY_FAMILY: dict[str, list[Any]] = defaultdict(list)
for _case in CORPUS:
    if not _case.changes:
        BY_FAMILY[_case.family].append(_case)


def trainer_rows(path: Path, *, max_length: int = 2048) -> list[tuple[list[int], list[int]]]:
    """What SpecForge's documented rules make of a file: both keys, whole numbers that are no
    booleans, masks of 0 and 1, equal lengths, cut to `max_length`, without supervision dropped."""
    found = []
    for row in lines(path):
        input_ids, mask = row["input_ids"], row["loss_mask"]
        assert all(type(i) is int for i in [*input_ids, *mask])
        assert set(mask) <= {0, 1}
        assert len(input_ids) == len(mask) > 0
        input_ids, mask = input_ids[:max_length], mask[:max_length]
        if sum(mask):
            found.append((input_ids, mask))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_every_output_id_is_supervised_and_no_prompt_id_is(
    family: str, tmp_path: Path, exported: Export
) -> None:
    run = family_run(tmp_path / "run", family, BY_FAMILY[family])
    manifest = exported(run, keep=["reject"])
    samples = {sample.sample_id: sample for sample in read_samples(run)}
    rows = lines(tmp_path / "out" / "train")
    assert manifest.counts.exported == len(rows) > 5
    for row in rows:
        sample = samples[row["id"]]
        assert row["input_ids"] == sample.input_ids + sample.output_ids
        supervised = [i for i, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
        assert supervised == sample.output_ids
        assert row["loss_mask"] == [0] * len(sample.input_ids) + [1] * len(sample.output_ids)
        assert row["metadata"]["finish_reason"] == sample.finish


@pytest.mark.parametrize("family", ["kimi_k25", "deepseek_r1", "qwen35", "minimax_m2"])
def test_the_think_that_the_prompt_opened_is_not_supervised(
    family: str, tmp_path: Path, exported: Export
) -> None:
    run = family_run(tmp_path / "run", family, BY_FAMILY[family][:1])
    exported(run)
    (row,) = lines(tmp_path / "out" / "train")
    place = row["input_ids"].index(profile_named(family).think_open)
    assert row["loss_mask"][place] == 0


@pytest.mark.parametrize("family", ["qwen3", "glm45", "kimi_k2_thinking"])
def test_the_think_that_the_model_wrote_is_supervised(
    family: str, tmp_path: Path, exported: Export
) -> None:
    run = family_run(tmp_path / "run", family, BY_FAMILY[family][:1])
    exported(run)
    (row,) = lines(tmp_path / "out" / "train")
    place = row["input_ids"].index(profile_named(family).think_open)
    assert row["loss_mask"][place] == 1


def test_the_stop_is_supervised_and_a_cut_sample_has_none(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run([Spec(0), Spec(1, output="I think", finish="length")]))
    whole, cut = lines(tmp_path / "out" / "train")
    assert whole["input_ids"][-1] == ids("<|im_end|>")[0]
    assert whole["loss_mask"][-1] == 1
    assert cut["input_ids"][-3:] == ids("I think")
    assert cut["metadata"]["finish_reason"] == "length"


def test_metadata_has_the_same_keys_and_types_in_every_row(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run(MIXED), keep=["reject"])
    shapes = {
        tuple((key, type(value)) for key, value in row["metadata"].items())
        for row in lines(tmp_path / "out" / "train")
    }
    assert len(shapes) == 1
    assert lines(tmp_path / "out" / "train")[2]["metadata"]["flags"] == "finish.length_in_think"


def test_what_is_cut_to_length_says_so(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    run = make_run([Spec(0)])
    (sample,) = read_samples(run)
    most = len(sample.input_ids) + 3
    exported(run, max_length=most, over_length="cut")
    (row,) = lines(tmp_path / "out" / "train")
    assert row["input_ids"] == (sample.input_ids + sample.output_ids)[:most]
    assert sum(row["loss_mask"]) == 3
    assert row["metadata"]["cut_tokens"] == len(sample.output_ids) - 3
    assert row["metadata"]["finish_reason"] == "length"


def test_no_prompt_and_no_output_are_no_comma_too_many(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run([Spec(0, changes={"input_ids": [], "prompt_tokens": 0})]))
    (row,) = lines(tmp_path / "out" / "train")
    assert set(row["loss_mask"]) == {1}


def test_specforge_rules_hold(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    exported(make_run(MIXED))
    assert len(trainer_rows(tmp_path / "out" / "train")) == 4


def test_datasets_reads_the_folder_of_a_split_as_speculators_does(
    make_run: MakeRun, tmp_path: Path, exported: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(MIXED)
    exported(run, part_bytes=1)
    folder = tmp_path / "out" / "train"
    files = sorted(str(p) for p in (*folder.rglob("*.json"), *folder.rglob("*.jsonl")))
    assert len(files) == 4
    cache = str(tmp_path / "cache")
    rows = load_dataset("json", data_files=files, split="train", cache_dir=cache)
    samples: dict[str, Sample] = {s.sample_id: s for s in read_samples(run)}
    for row in rows:
        sample = samples[row["id"]]
        assert row["input_ids"] == sample.input_ids + sample.output_ids
        assert sum(row["loss_mask"]) == len(sample.output_ids)
