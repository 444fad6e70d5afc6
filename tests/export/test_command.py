"""`python -m runner.runs export`: options, refusals and what is printed."""

import json
from pathlib import Path

import msgspec
import pytest

from runner.records import SetFinding
from tests.export.conftest import lines
from tests.runs.conftest import MIXED, MakeRun, RunCommand, Spec

DECLARED = {
    "finish": {"class": "v.Finish", "severity": {"length_in_think": "flag"}},
    "ids": {"class": "v.Ids", "severity": {"unassigned": "reject"}},
}


@pytest.fixture
def mixed(make_run: MakeRun) -> None:
    run = make_run(MIXED)
    (run.verdicts("online") / "validators.json").write_bytes(msgspec.json.encode(DECLARED))


@pytest.mark.usefixtures("mixed")
def test_latest_with_the_defaults(runs: RunCommand, tmp_path: Path) -> None:
    done = runs("export", "latest", "--out", str(tmp_path / "data"))
    assert done.code == 0, done.err
    assert "samples 5 = exported 4 + left out 1" in done.out
    assert "1 rejected: ids.unassigned" in done.out
    assert len(lines(tmp_path / "data" / "train")) == 4


@pytest.mark.usefixtures("mixed")
def test_json_is_the_manifest(runs: RunCommand, tmp_path: Path) -> None:
    done = runs("export", "latest", "--out", str(tmp_path / "data"), "--json")
    assert json.loads(done.out) == json.loads((tmp_path / "data" / "manifest.json").read_text())


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("options", "exported"),
    [
        (["--drop", "flag"], 3),
        (["--drop", "flag", "--keep", "length_in_think"], 4),
        (["--keep", "reject,flag"], 5),
        (["--category", "B5"], 1),
        (["--category", "B4,B5"], 4),
        (["--finish", "length"], 1),
        (["--min-output", "5"], 3),
        (["--balance"], 2),
        (["--balance", "2"], 3),
        (["--split", "train=0.5,eval=0.5", "--shuffle", "--seed", "3"], 4),
        (["--max-length", "60"], 3),
        (["--max-length", "60", "--over-length", "cut"], 4),
    ],
)
def test_options(runs: RunCommand, tmp_path: Path, options: list[str], exported: int) -> None:
    done = runs("export", "latest", "--out", str(tmp_path / "data"), "--json", *options)
    assert done.code == 0, done.err
    counts = json.loads(done.out)["counts"]
    assert counts == {"samples": 5, "exported": exported, "left_out": 5 - exported}


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--drop", "lenght_in_think"], "finish.length_in_think"),
        (["--split", "train=0.9"], "--split"),
        (["--min-score", "tool=1"], "--min-score"),
        (["--set", "nobody"], "--set"),
        (["--to", "messages", "--call-reader", "nowhere:read"], "--call-reader"),
        (["--to", "vocabulary", "--draft-size", "2"], "--draft-size"),
    ],
)
def test_a_wrong_option_is_refused_and_nothing_is_written(
    runs: RunCommand, tmp_path: Path, options: list[str], words: str
) -> None:
    done = runs("export", "latest", "--out", str(tmp_path / "data"), *options)
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "data").exists()


def test_two_tasks_with_a_run_of_one_name(
    make_run: MakeRun, runs: RunCommand, tmp_path: Path
) -> None:
    paths = [str(make_run([Spec(0)], task=task).path) for task in ("day", "night")]
    done = runs("export", *paths, "--out", str(tmp_path / "data"))
    assert done.code == 0, done.err
    ids = [row["id"] for row in lines(tmp_path / "data" / "train")]
    assert [one.split("/")[0] for one in ids] == ["day", "night"]


@pytest.mark.usefixtures("mixed")
def test_an_export_of_nothing_is_exit_1(runs: RunCommand, tmp_path: Path) -> None:
    done = runs("export", "latest", "--out", str(tmp_path / "data"), "--category", "B9")
    assert done.code == 1
    assert "samples 5 = exported 0 + left out 5" in done.out


@pytest.mark.parametrize("option", ["--drop", "--keep"])
@pytest.mark.parametrize("name", ["same_output", "duplicates.same_output"])
def test_what_is_found_over_the_whole_set_is_no_choice_of_samples(
    make_run: MakeRun, runs: RunCommand, tmp_path: Path, option: str, name: str
) -> None:
    run = make_run(MIXED)
    found = SetFinding(
        validator="duplicates", reason="same_output", category="B4", samples=2, share=0.5
    )
    (run.verdicts("online") / "set.json").write_bytes(msgspec.json.encode([found]))
    done = runs("export", "latest", "--out", str(tmp_path / "data"), option, name)
    assert done.code == 2
    assert "no single sample carries it" in done.err
    assert "B4 (2 samples)" in done.err
    assert option in done.err
    assert not (tmp_path / "data").exists()
