import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from runner.errors import ConfigError, MachineError
from runner.records import Failure, RunStatus
from runner.rundir import (
    RunDir,
    RunState,
    append_line,
    filesystem_kind,
    find_run,
    find_runs,
    replace_file,
)


def make_run(outputs: Path, name: str, **changes: object) -> RunDir:
    run = RunDir(outputs / "task" / name)
    values = {"run_id": name, "status": RunStatus.DONE, "created_at": 1.0, **changes}
    run.write(RunState(**values))  # type: ignore[arg-type]
    return run


def test_run_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", reason="x", identity={"seed": 3})
    assert run.read().reason == "x"
    assert run.read().identity == {"seed": 3}
    assert [p.name for p in run.path.iterdir()] == ["run.json"], "no partial file is left"


def test_a_broken_run_json_names_the_file(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    run.run_json.write_text("{")
    with pytest.raises(MachineError, match=r"run\.json"):
        run.read()


def test_the_lock_keeps_a_second_process_out_and_goes_with_its_holder(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "r")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom runner.rundir import RunDir\n"
        f"with RunDir(Path({str(run.path)!r})).locked():\n    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(MachineError, match=f"held by process {holder.pid}"), run.locked():
            pass
        holder.kill()
    with run.locked():
        assert run.lock_file.read_text().split()[0] == str(os.getpid())


def test_a_running_run_whose_process_is_gone_is_dead(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    state = make_run(tmp_path, "a").read()
    here = msgspec.structs.replace(state, status=RunStatus.RUNNING, host=socket.gethostname())
    assert msgspec.structs.replace(here, pid=ended.pid).dead
    assert not msgspec.structs.replace(here, pid=os.getpid()).dead
    assert not msgspec.structs.replace(here, status=RunStatus.DONE, pid=ended.pid).dead


def test_a_run_of_another_host_is_dead_by_its_heartbeat(tmp_path: Path) -> None:
    state = make_run(tmp_path, "a", status=RunStatus.RUNNING, host="elsewhere", pid=1).read()
    assert msgspec.structs.replace(state, heartbeat=time.time() - 600).dead
    assert not msgspec.structs.replace(state, heartbeat=time.time()).dead


def test_runs_are_found_newest_first_by_id_path_part_and_latest(tmp_path: Path) -> None:
    old = make_run(tmp_path, "tiny-B1-0000", created_at=1.0, heartbeat=9.0)
    new = make_run(tmp_path, "tiny-B4-1111", created_at=2.0, heartbeat=3.0)
    assert [run.path for run in find_runs(tmp_path)] == [new.path, old.path]
    assert find_run("latest", tmp_path).path == old.path, "latest is the one worked on last"
    assert find_run("tiny-B4-1111", tmp_path).path == new.path
    assert find_run("B1", tmp_path).path == old.path
    assert find_run(str(new.path), Path("nowhere")).path == new.path


@pytest.mark.parametrize("name", ["tiny", "nothing", "latest"])
def test_no_or_several_matches_list_what_there_is(tmp_path: Path, name: str) -> None:
    outputs = tmp_path / "empty" if name == "latest" else tmp_path
    make_run(tmp_path, "tiny-B1-0000")
    make_run(tmp_path, "tiny-B4-1111")
    with pytest.raises(ConfigError) as caught:
        find_run(name, outputs)
    assert name in str(caught.value)


def test_a_replaced_file_never_shows_half_of_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    replace_file(path, b"one")
    before = path.stat().st_ino
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_ino != before, "another file took its name"


def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "f"
    replace_file(path, b"one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"two")
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
    assert path.read_bytes() == b"one"


def test_an_appended_line_ends_a_torn_one_first(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    path.write_bytes(b'{"sample_id": "torn')
    failure = Failure(sample_id="a", prompt_hash="", category="B4", kind="failed", reason="abort")
    append_line(path, failure)
    append_line(path, failure)
    _, first, second, end = path.read_bytes().split(b"\n")
    assert msgspec.json.decode(first, type=Failure) == failure
    assert first == second
    assert end == b""


@pytest.mark.parametrize(
    ("kind", "host", "age_s", "refused"),
    [
        ("nfs4", "elsewhere", 3.0, True),
        ("nfs4", "elsewhere", 90.0, False),
        ("nfs4", "here", 3.0, False),
        ("ext4", "elsewhere", 3.0, False),
    ],
)
def test_on_a_network_file_system_a_live_heartbeat_elsewhere_holds_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    host: str,
    age_s: float,
    refused: bool,
) -> None:
    run = RunDir(tmp_path / "run")
    name = socket.gethostname() if host == "here" else host
    heartbeat = time.time() - age_s
    run.write(RunState(run_id="r", status=RunStatus.RUNNING, host=name, heartbeat=heartbeat))
    monkeypatch.setattr("runner.rundir.filesystem_kind", lambda _path: kind)
    if refused:
        with pytest.raises(MachineError, match="on another host"), run.locked():
            pass
    else:
        with run.locked():
            pass


def test_the_kind_of_a_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "a / ext4 rw 0 0\nb /data nfs4 rw 0 0\nc /data/my\\040disk xfs rw 0 0\nd /dat cifs rw 0 0\n"
    )
    kinds = {
        path: filesystem_kind(Path(path), mounts)
        for path in ("/home/x", "/data/run", "/data/my disk/run")
    }
    assert kinds == {"/home/x": "ext4", "/data/run": "nfs4", "/data/my disk/run": "xfs"}
    assert filesystem_kind(Path("/"), tmp_path / "none") == ""
