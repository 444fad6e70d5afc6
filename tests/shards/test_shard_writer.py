"""The writer: what it acknowledges is on disk, in order, and nothing after a failure is."""

import errno
import os
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.errors import MachineError
from runner.shards import ShardReader, ShardWriter, layout, openshard, verify
from runner.shards.manifest import load_manifest
from tests.shards.shardkit import files, keying, leave_open, line, read, some_lines, write


def free_keying(one):
    return one.hex(), len(one)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.binary(max_size=80).map(lambda one: one.replace(b"\n", b"")), max_size=40),
    frame_bytes=st.integers(1, 400),
    shard_bytes=st.integers(1, 2000),
)
def test_any_lines_come_back_in_order(tmp_path_factory, lines, frame_bytes, shard_bytes):
    directory = tmp_path_factory.mktemp("round")
    options = {"frame_bytes": frame_bytes, "shard_bytes": shard_bytes, "keying": free_keying}
    write(directory, lines, **options)
    reader = ShardReader(directory, keying=free_keying)
    assert list(reader.lines()) == lines
    assert len(reader) == len(lines)
    assert [reader.at(i) for i in range(len(lines))] == lines
    assert all(reader.get(one.hex()) == one for one in lines)
    assert verify(directory).ok


def put_and_flush(writer, *numbers, then=None):
    """Use a writer for these lines, one frame each."""
    with writer:
        for number in numbers:
            writer.put(line(number), number)
            writer.flush()
        if then is not None:
            raise then


def test_receipts_come_in_order_and_all(tmp_path):
    told = []
    with ShardWriter(
        tmp_path, keying=keying, on_durable=told.append, frame_bytes=100, fsync=True
    ) as writer:
        for number in range(50):
            writer.put(line(number), number)
    assert [receipt for receipts in told for receipt in receipts] == list(range(50))
    assert len(told) > 5


def test_a_receipt_is_told_when_its_line_can_be_read(tmp_path):
    seen = []
    with ShardWriter(
        tmp_path, keying=keying, on_durable=lambda ids: seen.append((ids, len(read(tmp_path))))
    ) as writer:
        for number in range(3):
            writer.put(line(number), number)
            writer.flush()
    assert seen == [([0], 1), ([1], 2), ([2], 3)]


def test_flush_waits_for_what_was_put(tmp_path):
    with ShardWriter(tmp_path, keying=keying, linger_s=600) as writer:
        writer.put(line(0))
        assert writer.backlog_bytes == len(line(0)) + 1
        writer.flush()
        assert writer.backlog_bytes == 0
        assert read(tmp_path) == [line(0)]
        writer.flush()


def test_a_lone_line_is_written_after_the_linger(tmp_path):
    durable = threading.Event()
    with ShardWriter(
        tmp_path, keying=keying, linger_s=0.02, on_durable=lambda _: durable.set()
    ) as writer:
        writer.put(line(0))
        assert durable.wait(30)


def test_a_full_frame_is_written_before_the_linger(tmp_path):
    durable = threading.Event()
    with ShardWriter(
        tmp_path, keying=keying, linger_s=600, frame_bytes=200, on_durable=lambda _: durable.set()
    ) as writer:
        writer.put(line(0))
        time.sleep(0.05)  # let the writer begin to wait for the linger
        for number in range(1, 20):
            writer.put(line(number))
        assert durable.wait(30)


def test_a_part_of_a_frame_waits_for_the_linger_also_after_a_full_one(tmp_path):
    with ShardWriter(tmp_path, keying=keying, linger_s=600, frame_bytes=200) as writer:
        for number in range(20):
            writer.put(line(number))
        writer.flush()
        writer.put(line(20))
        time.sleep(0.05)
        assert writer.backlog_bytes == len(line(20)) + 1


def test_frames_hold_frame_bytes(tmp_path):
    lines = some_lines(2000)
    write(tmp_path, lines, frame_bytes=1000, linger_s=600)
    (entry,) = load_manifest(tmp_path).values()
    mean = entry.raw_bytes / entry.frames
    assert 900 < mean < 1000 + max(map(len, lines)) + 1


def test_shards_roll_by_compressed_size(tmp_path):
    write(tmp_path, some_lines(1000), frame_bytes=500, shard_bytes=2000)
    manifest = load_manifest(tmp_path)
    assert len(manifest) > 2
    assert all(2000 <= entry.bytes < 4000 for entry in list(manifest.values())[:-1])
    assert sum(entry.records for entry in manifest.values()) == 1000


def test_put_from_many_threads_loses_nothing(tmp_path):
    with ShardWriter(tmp_path, keying=keying, frame_bytes=300, fsync=False) as writer:
        threads = [
            threading.Thread(target=lambda k=k: [writer.put(line(i)) for i in range(k, 800, 4)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(read(tmp_path)) == sorted(some_lines(800))


def test_an_empty_writer_leaves_no_shard(tmp_path):
    write(tmp_path / "deep" / "down", [])
    assert files(tmp_path / "deep" / "down") == []


def test_each_orderly_end_seals(tmp_path):
    for number in range(3):
        write(tmp_path, [line(number)])
    assert read(tmp_path) == some_lines(3)
    assert files(tmp_path) == [
        "manifest.json",
        *(f"shard-0000{n}.{end}" for n in range(3) for end in ("idx.npy", "jsonl.zst")),
    ]


def test_an_exception_in_the_block_seals_too(tmp_path):
    with pytest.raises(KeyError):
        put_and_flush(ShardWriter(tmp_path, keying=keying), 1, then=KeyError())
    assert verify(tmp_path).records == 1
    assert "shard-00000.jsonl.zst" in files(tmp_path)


def test_close_twice(tmp_path):
    with ShardWriter(tmp_path, keying=keying) as writer:
        writer.put(line(1))
        writer.close()
    assert read(tmp_path) == [line(1)]


def test_put_after_close_is_refused(tmp_path):
    writer = write(tmp_path, [])
    with pytest.raises(ValueError, match="open writer"):
        writer.put(line(1))


def test_a_newline_in_a_line_is_refused(tmp_path):
    with ShardWriter(tmp_path, keying=keying) as writer, pytest.raises(ValueError, match="newline"):
        writer.put(b'{"id":"a"}\n')


@pytest.mark.parametrize("bad", [b"no json", b"{}", b"[]"])
def test_a_line_without_key_is_refused_at_the_door(tmp_path, bad):
    with ShardWriter(tmp_path, keying=keying) as writer:
        with pytest.raises((ValueError, KeyError, TypeError)):
            writer.put(bad)
        writer.put(line(1))
    assert read(tmp_path) == [line(1)]


@pytest.mark.parametrize("tag", [-1, 2**64])
def test_a_tag_out_of_range_is_refused_at_the_door(tmp_path, tag):
    with (
        ShardWriter(tmp_path, keying=lambda one: ("a", tag)) as writer,
        pytest.raises(ValueError, match="tag"),
    ):
        writer.put(b"{}")


def test_a_second_writer_is_refused(tmp_path):
    with ShardWriter(tmp_path, keying=keying) as writer:
        writer.put(line(1))
        second = ShardWriter(tmp_path, keying=keying)
        with pytest.raises(MachineError, match=f"process {os.getpid()}"):
            second.__enter__()
    write(tmp_path, [line(2)])
    assert read(tmp_path) == [line(1), line(2)]


@pytest.fixture
def disk_calls(monkeypatch):
    """What the writer asks of the disk, in order."""
    calls = []

    def noting(name, function):
        def noted(*args):
            calls.append(name)
            return function(*args)

        return noted

    monkeypatch.setattr(openshard, "write_all", noting("write", openshard.write_all))
    monkeypatch.setattr(openshard, "sync_data", noting("sync", openshard.sync_data))
    for module in (openshard, layout):
        sync = noting("sync directory", layout.sync_directory)
        monkeypatch.setattr(module, "sync_directory", sync)
    monkeypatch.setattr(openshard.Path, "rename", noting("rename", openshard.Path.rename))
    monkeypatch.setattr(openshard.Path, "replace", noting("replace", openshard.Path.replace))
    return calls


def test_what_is_told_is_synced_and_what_is_renamed_is_synced(tmp_path, disk_calls):
    with ShardWriter(tmp_path, keying=keying, on_durable=lambda _: disk_calls.append("told")) as w:
        for number in range(2):
            w.put(line(number))
            w.flush()
    frame = ["write", "sync", "told"]
    seal = ["write", "sync", "rename", "sync directory"]
    listed = ["replace", "sync directory"] * 2
    assert disk_calls == ["sync directory", *frame, *frame, *seal, *listed]


def test_a_frame_of_a_killed_writer_is_synced_before_it_counts(tmp_path, monkeypatch):
    """It may never have been synced: the kill came between write and sync."""
    shard = leave_open(tmp_path, [[line(0)]])
    shard.close()
    synced = []
    monkeypatch.setattr(openshard.os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    with ShardWriter(tmp_path, keying=keying):
        assert shard.path.stat().st_ino in synced


def test_frames_of_one_line(tmp_path):
    write(tmp_path, some_lines(5), frame_bytes=0)
    assert load_manifest(tmp_path)[0].frames == 5
    assert read(tmp_path) == some_lines(5)


def test_without_fsync_nothing_is_synced(tmp_path, disk_calls):
    write(tmp_path, [line(0)], fsync=False)
    assert set(disk_calls) == {"write", "rename", "replace"}


@pytest.fixture
def failing_sync(monkeypatch):
    """The second sync of data fails, as a dying disk's would."""
    calls = []

    def sync(fd):
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(openshard, "sync_data", sync)


@pytest.mark.usefixtures("failing_sync")
def test_nothing_is_acknowledged_after_a_failed_sync(tmp_path):
    durable, failures = [], []
    writer = ShardWriter(
        tmp_path, keying=keying, on_durable=durable.extend, on_failure=failures.append
    )
    writer.__enter__()
    writer.put(line(0), 0)
    writer.flush()
    writer.put(line(1), 1)
    with pytest.raises(MachineError, match="EIO"):
        writer.flush()
    with pytest.raises(MachineError, match="EIO"):
        writer.put(line(2), 2)
    with pytest.raises(MachineError, match="EIO") as raised:
        writer.close()
    assert durable == [0]
    assert failures == [raised.value]
    assert "shard-00000.jsonl.zst.part" in raised.value.where
    assert "same command" in raised.value.next_step
    assert read(tmp_path) == [line(0)], "the frame that could not be synced is cut off again"
    assert files(tmp_path) == ["shard-00000.jsonl.zst.part"]


@pytest.mark.usefixtures("failing_sync")
def test_the_next_writer_goes_on_after_a_failure(tmp_path):
    writer = ShardWriter(tmp_path, keying=keying)
    with pytest.raises(MachineError, match="EIO"):
        put_and_flush(writer, 0, 1)
    after = write(tmp_path, [line(1)])
    assert after.recovery.continued_records == 1
    assert read(tmp_path) == some_lines(2)
    assert verify(tmp_path, full=True, keying=keying).ok


@pytest.mark.usefixtures("failing_sync")
def test_a_failure_outranks_an_exception_in_the_block(tmp_path):
    writer = ShardWriter(tmp_path, keying=keying)

    def work():
        with writer:
            writer.put(line(0))
            writer.flush()
            writer.put(line(1))
            raise KeyError("interrupted")

    with pytest.raises(MachineError) as raised:
        work()
    assert isinstance(raised.value.__context__, KeyError)


def test_a_full_disk_is_named(tmp_path):
    """/dev/full is a device that answers every write with ENOSPC."""
    writer = ShardWriter(tmp_path, keying=keying).__enter__()
    (tmp_path / "shard-00000.jsonl.zst.part").symlink_to("/dev/full")
    writer.put(line(0))
    with pytest.raises(MachineError, match="ENOSPC") as raised:
        writer.close()
    assert "make room" in raised.value.next_step


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_callback_stops_the_writer_loudly(tmp_path):
    def broken(receipts):
        raise AttributeError("a bug")

    failures = []
    writer = ShardWriter(tmp_path, keying=keying, on_durable=broken, on_failure=failures.append)
    with pytest.raises(MachineError, match="stopped on a bug"):
        put_and_flush(writer, 0)
    assert len(failures) == 1


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    write(tmp_path, some_lines(30), frame_bytes=300)
    monkeypatch.undo()
    assert read(tmp_path) == some_lines(30)
    assert verify(tmp_path).ok


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path):
    (tmp_path / "samples").write_text("")
    with pytest.raises(MachineError, match="EEXIST"):
        ShardWriter(tmp_path / "samples", keying=keying).__enter__()
