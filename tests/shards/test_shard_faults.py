"""Whichever call on the disk fails, at whichever byte: what was acknowledged is there, nothing is
there twice, and the next writer goes on."""

import contextlib
import errno
import os
from pathlib import Path

import pytest

from runner.errors import MachineError
from runner.shards import ShardReader, ShardWriter, openshard, verify
from tests.shards.shardkit import keying, line

COUNT = 20
LINES = {f"B4-{n}-0": line(n, text=str(hash((n, "x")) ** 9)) for n in range(COUNT)}


class Disk:
    """Counts the calls; one of them fails, or all writes once so many bytes are written."""

    def __init__(self, *, fail_at: int = -1, room: int = 2**40) -> None:
        self.fail_at, self.room, self.calls = fail_at, room, 0

    def call(self, function, *args):
        self.calls += 1
        if self.calls - 1 == self.fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return function(*args)

    def pwrite(self, function, fd, data, offset):
        if len(data) < 10:  # the line in the lock file
            return function(fd, data, offset)
        taken = data[: min(len(data), self.room)]
        if not len(taken):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(taken)
        return self.call(function, fd, taken, offset)


@pytest.fixture
def on(monkeypatch):
    """Work on a disk."""

    def put_on(disk):
        def through(owner, name, how=None):
            function = getattr(owner, name)
            handler = how or disk.call
            monkeypatch.setattr(owner, name, lambda *args: handler(function, *args))

        through(os, "pwrite", disk.pwrite)
        through(os, "fsync")
        through(openshard, "sync_data")
        through(Path, "rename")
        through(Path, "replace")
        return disk

    yield put_on
    monkeypatch.undo()


def work(directory: Path) -> list[str]:
    """Put what is missing, a few lines at a time, over several shards, as far as the disk lets
    it. Gives what was acknowledged."""
    acknowledged: list[str] = []
    there = {keying(one)[0] for one in ShardReader(directory).lines()}
    writer = ShardWriter(
        directory,
        keying=keying,
        frame_bytes=300,
        shard_bytes=900,
        on_durable=acknowledged.extend,
    )
    with contextlib.suppress(MachineError), writer:
        for number, (key, one) in enumerate(LINES.items()):
            if key not in there:
                writer.put(one, key)
            if number % 4 == 0:
                writer.flush()
    return acknowledged


def check(directory: Path, acknowledged: list[str]) -> None:
    stored = [keying(one)[0] for one in ShardReader(directory).lines()]
    assert len(set(stored)) == len(stored)
    assert set(acknowledged) <= set(stored)


def finish(directory: Path) -> None:
    work(directory)
    report = verify(directory, full=True, keying=keying)
    assert report.problems == []
    assert report.records == COUNT
    assert not list(directory.glob("*.tmp"))


def calls_in_all(on, tmp_path) -> int:
    disk = on(Disk())
    work(tmp_path / "whole")
    return disk.calls


def test_any_call_may_fail(tmp_path, on, monkeypatch):
    calls = calls_in_all(on, tmp_path)
    assert calls > 40
    for fail_at in range(calls):
        monkeypatch.undo()
        on(Disk(fail_at=fail_at))
        directory = tmp_path / str(fail_at)
        acknowledged = work(directory)
        monkeypatch.undo()
        check(directory, acknowledged)
        finish(directory)


def test_the_disk_may_be_full_at_any_byte(tmp_path, on, monkeypatch):
    work(tmp_path / "whole")
    total = sum(path.stat().st_size for path in (tmp_path / "whole").glob("*.zst"))
    stopped = 0
    for room in range(0, total, 43):
        monkeypatch.undo()
        on(Disk(room=room))
        directory = tmp_path / str(room)
        acknowledged = work(directory)
        stopped += len(acknowledged) < COUNT
        monkeypatch.undo()
        check(directory, acknowledged)
        finish(directory)
    assert stopped > 20
