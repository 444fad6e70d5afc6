"""Real processes, really killed: what was acknowledged is there, and each id once in the end."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import runner
from runner.shards import ShardReader, verify
from tests.shards.shardkit import files, keying, leave_open, some_lines

ROOT = Path(runner.__file__).parents[1]
COUNT = 600


def start(directory, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.shards.child_writer", directory, str(COUNT),
         json.dumps(options)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process):
    """(exit status, acknowledged ids, other words) of a child that ends by itself."""
    with process:
        output, _ = process.communicate(timeout=60)
    told = output.splitlines()
    acknowledged = [word for word in told if word.startswith("B4-")]
    return process.returncode, acknowledged, [word for word in told if word not in acknowledged]


def stored(directory):
    return [keying(one)[0] for one in ShardReader(directory).lines()]


def assert_all_once(directory):
    assert sorted(stored(directory)) == sorted(f"B4-{number}-0" for number in range(COUNT))
    report = verify(directory, full=True, keying=keying)
    assert report.problems == []
    assert report.records == COUNT
    assert not [name for name in files(directory) if name.endswith((".part", ".tmp"))]


def test_killed_in_the_middle_of_writes(tmp_path):
    """Each child kills itself behind its n-th short write, most of them inside a frame."""
    acknowledged, cut_bytes = set(), 0
    for kill_at_write in (1, 2, 9, 40, 41, 42, 77):
        status, ids, others = finish(start(tmp_path, dribble=97, kill_at_write=kill_at_write))
        assert status == -signal.SIGKILL
        acknowledged.update(ids)
        cut_bytes += sum(int(word.split()[1]) for word in others)
        assert acknowledged <= set(stored(tmp_path))
    status, _, _ = finish(start(tmp_path))
    assert status == 0
    assert cut_bytes > 0, "no child left a torn tail: this test has proven nothing"
    assert_all_once(tmp_path)


def test_killed_at_any_moment(tmp_path):
    acknowledged = set()
    rng = random.Random(11)
    for _ in range(6):
        process = start(tmp_path, dribble=61, shard_bytes=9000)
        assert process.stdout is not None
        head = process.stdout.readline()
        assert head.startswith("recovered")
        time.sleep(rng.random() * 0.1)
        process.kill()
        _, ids, _ = finish(process)
        acknowledged.update(ids)
        assert acknowledged <= set(stored(tmp_path))
    status, _, _ = finish(start(tmp_path, shard_bytes=9000))
    assert status == 0
    assert_all_once(tmp_path)


def test_a_killed_writer_holds_no_lock(tmp_path):
    finish(start(tmp_path, dribble=97, kill_at_write=3))
    assert (tmp_path / ".writer.lock").exists()
    assert finish(start(tmp_path))[0] == 0


@pytest.mark.parametrize("file_limit", [1, 5_000, 9_999])
def test_a_full_disk_stops_the_writer_and_loses_nothing(tmp_path, file_limit):
    """The file size limit of the process stands for the disk: a short write, then EFBIG."""
    status, ids, others = finish(start(tmp_path, file_limit=file_limit))
    assert status == 1
    assert [word for word in others if word.startswith("failed EFBIG")]
    assert set(stored(tmp_path)) == set(ids), "cut back to what was acknowledged"
    assert verify(tmp_path).tail_bytes == 0
    assert finish(start(tmp_path))[0] == 0
    assert_all_once(tmp_path)


def test_no_room_for_the_seek_table(tmp_path):
    """Sealing fails on a full disk; the frames stay in the open shard, without half a table."""
    shard = leave_open(tmp_path, [some_lines(COUNT // 2), some_lines(COUNT // 2, first=300)])
    shard.close()
    status, ids, others = finish(start(tmp_path, file_limit=shard.end + 10))
    assert (status, ids) == (1, [])
    assert others[1].startswith("failed EFBIG")
    assert shard.path.stat().st_size == shard.end
    assert finish(start(tmp_path))[0] == 0
    assert_all_once(tmp_path)
