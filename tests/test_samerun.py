"""A run is found again when its mix grew or shrank, and only then."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import Config, Partition
from runner.errors import ConfigError
from runner.identity import digest_of, run_name
from runner.partition import is_own
from runner.records import RunStatus
from runner.rundir import RunDir, RunState
from runner.samerun import find_directory, grown, is_same_run
from tests.test_identity import config


def identity(seed: int = 1, **parts: str) -> dict:
    return {"seed": seed, "prompts": {name: {"sha256": text} for name, text in parts.items()}}


def begin(folder: Path, asked: dict, *, of: Config | None = None, at: float = 0.0) -> Path:
    path = find_directory(folder, of or config(), asked)
    state = RunState(run_id=path.name, status=RunStatus.DONE, identity=asked, created_at=at)
    RunDir(path).write(state)
    return path


def test_a_new_run_is_named_by_its_digest(tmp_path: Path) -> None:
    asked = identity(B1="x")
    assert find_directory(tmp_path, config(), asked).name == run_name(config(), digest_of(asked))
    assert list(tmp_path.iterdir()) == []


def test_growing_shrinking_and_changing_parts_stay_in_one_run(tmp_path: Path) -> None:
    begun = begin(tmp_path, identity(B1="x", B2="y"))
    for asked in (identity(B1="x"), identity(B1="x", B2="y", B3="z"), identity(B2="y", B4="w")):
        assert find_directory(tmp_path, config(), asked) == begun


@pytest.mark.parametrize(
    "asked",
    [identity(B1="other"), identity(B1="x", B2="other"), identity(B9="q"), identity(2, B1="x")],
)
def test_another_content_no_common_part_or_another_seed_is_another_run(
    tmp_path: Path, asked: dict
) -> None:
    begun = begin(tmp_path, identity(B1="x", B2="y"))
    assert find_directory(tmp_path, config(), asked) != begun


def test_a_part_that_comes_back_with_other_content_is_another_run(tmp_path: Path) -> None:
    begun = begin(tmp_path, identity(B1="x", B2="y"))
    state = RunDir(begun).read()
    state = msgspec.structs.replace(state, identity=grown(state.identity, identity(B1="x")))
    RunDir(begun).write(state)
    assert find_directory(tmp_path, config(), identity(B1="x", B2="new")) != begun


def test_another_category_by_name_is_another_run(tmp_path: Path) -> None:
    begun = begin(tmp_path, identity(B1="x", B4="y"))
    assert find_directory(tmp_path, config("category=all"), identity(B4="y")) != begun


def test_the_run_with_most_parts_in_common_is_taken_then_the_first(tmp_path: Path) -> None:
    begin(tmp_path, identity(B1="x"), at=1.0)
    more = tmp_path / f"{run_name(config(), 'f' * 64)}"
    for path, at in ((more, 3.0), (more.with_name(more.name[:-1] + "e"), 2.0)):
        asked = identity(B1="x", B2="y")
        RunDir(path).write(
            RunState(run_id="r", status=RunStatus.DONE, identity=asked, created_at=at)
        )
    found = find_directory(tmp_path, config(), identity(B1="x", B2="y", B3="z"))
    assert found == more.with_name(more.name[:-1] + "e")


def test_an_unreadable_run_beside_it_does_no_harm(tmp_path: Path) -> None:
    begun = begin(tmp_path, identity(B1="x"))
    broken = begun.with_name(begun.name[:-1] + "z")
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert find_directory(tmp_path, config(), identity(B1="x", B2="y")) == begun


def test_partitions_have_directories_of_their_own(tmp_path: Path) -> None:
    whole = config()
    parts = [replace(whole, partition=Partition(index=i, of=2)) for i in range(2)]
    begun = [begin(tmp_path, identity(B1="x"), of=one) for one in parts]
    assert [path.name[-6:] for path in begun] == [".p0of2", ".p1of2"]
    asked = identity(B1="x", B2="y")
    assert [find_directory(tmp_path, one, asked) for one in parts] == begun
    assert find_directory(tmp_path, whole, asked) not in begun


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="partition"):
        config("partition.index=2", "partition.of=2")


@given(of=st.integers(1, 9), row=st.integers(0, 10**9))
def test_each_row_falls_to_exactly_one_partition(of: int, row: int) -> None:
    name = f"B4-{row}"
    assert sum(is_own(name, Partition(index=i, of=of)) for i in range(of)) == 1


def test_same_run_needs_a_common_part() -> None:
    assert not is_same_run(identity(), identity())
    assert is_same_run(identity(B1="x"), identity(B1="x"))
