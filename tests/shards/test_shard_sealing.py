"""Sealing is a row of steps; a crash between any two of them is put right by the next writer."""

import numpy as np
import pytest

from runner.errors import DamagedShard
from runner.shards import verify
from runner.shards.manifest import load_manifest
from runner.shards.seektable import table_bytes
from tests.shards.shardkit import files, frame_ends, keying, leave_open, line, read, write

FRAMES = [[line(0), line(1)], [line(2)], [line(3), line(4), line(5)]]
LINES = [one for frame in FRAMES for one in frame]
SEALED = "shard-00000.jsonl.zst"
ALL = ["manifest.json", "shard-00000.idx.npy", SEALED]


def crash_after(directory, step):
    """Leave the directory as it is when the process dies behind this step of sealing."""
    shard = leave_open(directory, FRAMES)
    if step == "half a table":
        shard.append_table()
        shard.close()
        data = shard.path.read_bytes()
        shard.path.write_bytes(data[:-10])
        return
    if step in ("table", "rename", "index"):
        shard.append_table()
    if step in ("rename", "index"):
        shard.rename()
    shard.close()
    if step == "index":
        (directory / "shard-00000.idx.npy").write_bytes(b"whatever")


STEPS = {
    "frames": {"continued_records": 6, "cut_bytes": 0, "listed_shards": 0},
    "half a table": {"continued_records": 6, "cut_bytes": table_bytes(3) - 10, "listed_shards": 0},
    "table": {"continued_records": 6, "cut_bytes": table_bytes(3), "listed_shards": 0},
    "rename": {"continued_records": 0, "cut_bytes": 0, "listed_shards": 1},
    "index": {"continued_records": 0, "cut_bytes": 0, "listed_shards": 1},
}


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_sealing_loses_nothing(tmp_path, step):
    crash_after(tmp_path, step)
    assert read(tmp_path) == LINES, "readable before it is put right"
    recovery = write(tmp_path, []).recovery
    assert {name: getattr(recovery, name) for name in STEPS[step]} == STEPS[step]
    assert files(tmp_path) == ALL
    assert read(tmp_path) == LINES
    assert verify(tmp_path, full=True, keying=keying).ok


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_sealing_makes_the_same_file_in_the_end(tmp_path, step):
    leave_open(tmp_path / "smooth", FRAMES).seal()
    crash_after(tmp_path / "crashed", step)
    write(tmp_path / "crashed", [])
    for name in ALL:
        assert (tmp_path / "smooth" / name).read_bytes() == (
            tmp_path / "crashed" / name
        ).read_bytes()


def test_a_renamed_shard_without_manifest_line_is_reported(tmp_path):
    crash_after(tmp_path, "rename")
    report = verify(tmp_path)
    assert [problem.kind for problem in report.problems] == ["unlisted"]


def test_a_lost_manifest_is_made_again(tmp_path):
    write(tmp_path, LINES)
    write(tmp_path, [line(6)])
    before = (tmp_path / "manifest.json").read_bytes()
    (tmp_path / "manifest.json").unlink()
    assert write(tmp_path, []).recovery.listed_shards == 2
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_a_damaged_unlisted_shard_is_refused_and_left(tmp_path):
    crash_after(tmp_path, "rename")
    data = bytearray((tmp_path / SEALED).read_bytes())
    data[20] ^= 4
    (tmp_path / SEALED).write_bytes(data)
    with pytest.raises(DamagedShard, match="frame 0 at byte 0"):
        write(tmp_path, [])
    assert files(tmp_path) == [SEALED]


def test_a_bad_frame_before_a_whole_table_is_damage(tmp_path):
    """The table proves that the last frame was whole once: no torn tail, though it is the last."""
    crash_after(tmp_path, "table")
    part = tmp_path / "shard-00000.jsonl.zst.part"
    data = bytearray(part.read_bytes())
    data[-table_bytes(3) - 1] ^= 1
    part.write_bytes(data)
    with pytest.raises(DamagedShard, match="frame 2 at byte"):
        read(tmp_path)
    with pytest.raises(DamagedShard, match="frame 2 at byte"):
        write(tmp_path, [])
    assert part.read_bytes() == data


def test_sealing_notices_that_the_file_was_altered(tmp_path):
    shard = leave_open(tmp_path, FRAMES)
    data = bytearray(shard.path.read_bytes())
    data[frame_ends(bytes(data))[1] + 12] ^= 1
    shard.path.write_bytes(data)
    with pytest.raises(DamagedShard, match="frame 1 at byte"):
        shard.seal()
    shard.close()
    assert files(tmp_path) == ["shard-00000.jsonl.zst.part"]


def test_sealing_notices_other_intact_frames(tmp_path):
    leave_open(tmp_path / "other", [[line(7), line(8)], [line(9)], FRAMES[2]]).close()
    shard = leave_open(tmp_path / "a", FRAMES)
    other = (tmp_path / "other" / shard.path.name).read_bytes()
    shard.path.write_bytes(other)
    with pytest.raises(DamagedShard):
        shard.seal()
    shard.close()


def test_a_frame_swapped_for_an_intact_one_is_damage(tmp_path):
    """The seek table tells of the checksum of each frame, so an intact stranger is noticed."""
    shard = leave_open(tmp_path, [[line(3)], [line(4)], [line(5)]])
    shard.seal()
    data = (tmp_path / SEALED).read_bytes()
    ends = frame_ends(data)
    assert ends[1] - ends[0] == ends[2] - ends[1]
    (tmp_path / SEALED).write_bytes(data[ends[1] : ends[2]] + data[ends[1] :])
    with pytest.raises(DamagedShard, match="not the one that the seek table tells of"):
        read(tmp_path)


def test_manifest_and_index_tell_of_the_shard(tmp_path):
    entry = leave_open(tmp_path, FRAMES).seal()
    assert entry == load_manifest(tmp_path)[0]
    assert (entry.records, entry.frames) == (6, 3)
    assert entry.raw_bytes == sum(len(one) + 1 for one in LINES)
    assert entry.bytes == (tmp_path / SEALED).stat().st_size
    rows = np.load(tmp_path / "shard-00000.idx.npy")
    assert rows["tag"].tolist() == list(range(6))
    assert rows["frame"].tolist() == [0, 0, 1, 2, 2, 2]
    assert rows["shard"].tolist() == [0] * 6


def test_every_flipped_bit_of_a_sealed_shard_is_found(tmp_path):
    """By verify always; a reader raises or, where a bit means nothing to zstd, reads the same."""
    leave_open(tmp_path, FRAMES).seal()
    whole = (tmp_path / SEALED).read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        (tmp_path / SEALED).write_bytes(data)
        try:
            assert read(tmp_path) == LINES, bit
        except DamagedShard:
            assert bit % 3 or "frame" in {p.kind for p in verify(tmp_path).problems}, bit
        else:
            assert [problem.kind for problem in verify(tmp_path).problems] == ["hash"], bit


def test_every_cut_of_a_sealed_shard_is_found(tmp_path):
    """Also without the manifest: a sealed shard ends with its table or is damaged."""
    leave_open(tmp_path, FRAMES).seal()
    whole = (tmp_path / SEALED).read_bytes()
    (tmp_path / "manifest.json").unlink()
    for size in range(len(whole)):
        (tmp_path / SEALED).write_bytes(whole[:size])
        with pytest.raises(DamagedShard):
            read(tmp_path)
