"""The folder of an export: equal bytes, kills, full disks, what is not touched."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import ConfigError, MachineError
from runner.export.folder import ExportFolder
from tests.export.conftest import Export, tree
from tests.runs.conftest import (
    MIXED,
    MakeRun,
    Spec,
    append,
)

ROOT = Path(__file__).resolve().parents[2]
MANY = [Spec(row, category="B4" if row % 3 else "B5") for row in range(40)]


@pytest.mark.parametrize(
    "to", ["pretokenized", "messages", "sharegpt", "parquet", "hf", "vocabulary"]
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_two_exports_are_the_same_bytes(
    make_run: MakeRun, tmp_path: Path, exported: Export, to: str, shuffle: bool
) -> None:
    run = make_run(MIXED)
    for out in ("one", "two"):
        exported(run, to=to, out=out, shuffle=shuffle, part_bytes=400)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert "manifest.json" in tree(tmp_path / "one")


def test_the_manifest_holds_no_path_and_no_time(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run(MIXED))
    text = (tmp_path / "out" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert not any(word in text for word in ("heartbeat", "created", "host"))


KILLED = """
import os, signal, sys
from pathlib import Path
from runner.export import Policy, Request, export
from runner.rundir import RunDir
from tests.export.conftest import given

seen = []
def say(text):
    seen.extend([text] if text.startswith("train/") else [])
    if len(seen) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

request = Request(to=sys.argv[3], policy=Policy(part_bytes=3000, shuffle=True))
export([given(RunDir(Path(sys.argv[1])))], Path(sys.argv[2]), request, say=say)
"""


@pytest.mark.parametrize("to", ["pretokenized", "parquet", "hf", "messages", "vocabulary"])
def test_a_killed_export_goes_on_to_the_same_bytes(
    make_run: MakeRun, tmp_path: Path, exported: Export, to: str
) -> None:
    run = make_run(MANY)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(run.path), str(tmp_path / "killed"), to, "1"], cwd=ROOT
    )
    assert killed.returncode == -signal.SIGKILL
    folder = ExportFolder(tmp_path / "killed")
    state = folder.read_state()
    assert state is not None
    assert len(state.parts) >= 1
    written = {name: (folder.path / name).stat().st_mtime_ns for name in state.parts}
    assert not folder.manifest.exists()
    for heap in folder.dealt.glob("*"):  # whatever a kill left of them
        heap.write_bytes(b"torn")
    for out in ("killed", "whole"):
        exported(run, to=to, out=out, part_bytes=3000, shuffle=True)
    assert tree(tmp_path / "killed") == tree(tmp_path / "whole")
    assert written == {name: (folder.path / name).stat().st_mtime_ns for name in written}


@pytest.mark.parametrize("part_bytes", [3000, 2**27], ids=["going on", "another policy"])
def test_heaps_of_a_killed_export_are_not_trusted(
    make_run: MakeRun, tmp_path: Path, exported: Export, part_bytes: int
) -> None:
    """Not even where one file is owed, which needs no heap."""
    run = make_run(MANY)
    out = tmp_path / "killed"
    exported(run, out="count", part_bytes=3000, shuffle=True)
    files = len(list((tmp_path / "count" / "train").iterdir()))
    command = [sys.executable, "-c", KILLED, str(run.path), str(out), "pretokenized"]
    subprocess.run([*command, str(files - 1)], cwd=ROOT, check=False)
    (left,) = ExportFolder(out).dealt.iterdir()
    for heap in (left, left.with_name("train-0")):
        heap.write_bytes(b"torn")
    for name in ("killed", "whole"):
        exported(run, out=name, part_bytes=part_bytes, shuffle=True, overwrite=True)
    assert tree(out) == tree(tmp_path / "whole")


def test_a_part_that_was_lost_meanwhile_is_written_again(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MANY)
    out = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(run.path), str(out), "pretokenized", "2"]
    subprocess.run(command, cwd=ROOT, check=False)
    next((out / "train").iterdir()).write_text("torn")
    for name in ("killed", "whole"):
        exported(run, out=name, part_bytes=3000, shuffle=True)
    assert tree(out) == tree(tmp_path / "whole")


def test_a_whole_export_is_left_as_it_is(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MIXED)
    first = exported(run)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert exported(run) == first
    assert before == {p: p.stat().st_mtime_ns for p in before}
    assert not (tmp_path / "out" / ".export").exists()


def test_another_policy_is_refused_and_overwrite_replaces(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MANY)
    exported(run, part_bytes=3000)
    assert len(list((tmp_path / "out" / "train").iterdir())) > 1
    with pytest.raises(ConfigError, match="--overwrite"):
        exported(run, drop=["flag"])
    exported(run, drop=["flag"], overwrite=True)
    assert len(list((tmp_path / "out" / "train").iterdir())) == 1


def test_a_run_that_grew_is_another_export(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run([Spec(0), Spec(1, state="pending")])
    exported(run)
    late = Spec(1)
    append(run.samples, [late.sample()])
    append(run.verdicts("online"), [late.judgement()])
    with pytest.raises(ConfigError, match="another export"):
        exported(run)


def test_a_folder_with_something_else_is_not_touched(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        exported(make_run(MIXED), overwrite=True)
    assert tree(tmp_path / "out") == {"thesis.tex": b"mine"}


def test_overwrite_takes_away_only_what_the_export_wrote(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MIXED)
    exported(run)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    exported(run, to="parquet", overwrite=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert not list((tmp_path / "out").rglob("*.jsonl.zst"))
    assert [p.name for p in (tmp_path / "out" / "train").iterdir()] == ["part-00000.parquet"]


def test_one_process_at_a_time(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    run = make_run(MIXED)
    folder = ExportFolder(tmp_path / "out")
    with folder.held(), pytest.raises(MachineError, match="Another process"):
        exported(run)


FULL = """
import resource, sys
from pathlib import Path
from runner.errors import MachineError
from runner.export import Policy, Request, export
from runner.rundir import RunDir
from tests.export.conftest import given

resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
request = Request(to=sys.argv[3], policy=Policy(part_bytes=6000))
try:
    export([given(RunDir(Path(sys.argv[1])))], Path(sys.argv[2]), request)
except MachineError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("to", ["pretokenized", "hf"])
def test_a_full_disk_is_told_and_the_same_command_goes_on(
    make_run: MakeRun, tmp_path: Path, exported: Export, to: str
) -> None:
    run = make_run(MANY)
    full = subprocess.run(
        [sys.executable, "-c", FULL, str(run.path), str(tmp_path / "full"), to],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert full.returncode == 1
    assert "could not write an export" in full.stderr
    assert not (tmp_path / "full" / "manifest.json").exists()
    for out in ("full", "whole"):
        exported(run, to=to, out=out, part_bytes=6000)
    assert tree(tmp_path / "full") == tree(tmp_path / "whole")


def test_a_place_that_is_no_folder_is_told(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigError, match="An export is a folder"):
        exported(make_run([Spec(0)]))
