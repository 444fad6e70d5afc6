"""What a killed writer leaves: torn tails are cut, damage is reported, nothing wrong is read."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import DamagedShard, MachineError
from runner.shards import Recovery, ShardReader, ShardWriter, verify
from runner.shards.frames import Frame
from runner.shards.seektable import make_seek_table
from tests.shards.shardkit import files, frame_ends, keying, leave_open, line, read, write

FRAMES = [[line(0), line(1)], [line(2)], [line(3), line(4), line(5)]]
LINES = [one for frame in FRAMES for one in frame]
PART = "shard-00000.jsonl.zst.part"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of an open shard with these frames."""
    directory = tmp_path_factory.mktemp("whole")
    leave_open(directory, FRAMES).close()
    return (directory / PART).read_bytes()


def lines_of(frames):
    return [one for frame in frames for one in frame]


def put_part(directory, data):
    (directory / PART).write_bytes(data)


def resume(directory, more=()):
    return write(directory, more).recovery


def test_a_whole_open_shard_is_gone_on_with(tmp_path, whole):
    put_part(tmp_path, whole)
    assert resume(tmp_path, [line(6)]) == Recovery(continued_records=6)
    assert read(tmp_path) == [*LINES, line(6)]
    assert files(tmp_path) == ["manifest.json", "shard-00000.idx.npy", "shard-00000.jsonl.zst"]
    report = verify(tmp_path, full=True, keying=keying)
    assert report.ok
    assert report.records == 7


def test_after_an_orderly_end_there_is_nothing_to_recover(tmp_path):
    write(tmp_path, LINES)
    assert resume(tmp_path) == Recovery()


def test_cut_at_every_byte(tmp_path, whole):
    """Whatever is left of the file, its whole frames are read, gone on with, and no more."""
    ends = frame_ends(whole)
    for size in range(len(whole) + 1):
        directory = tmp_path / str(size)
        directory.mkdir()
        put_part(directory, whole[:size])
        whole_frames = sum(end <= size for end in ends) - 1
        owed = lines_of(FRAMES[whole_frames:])
        assert read(directory) == lines_of(FRAMES[:whole_frames]), size
        assert verify(directory).tail_bytes == size - ends[whole_frames]
        assert resume(directory, owed).cut_bytes == size - ends[whole_frames]
        assert read(directory) == LINES, size
        assert verify(directory, full=True, keying=keying).ok, size


def test_every_flipped_bit_is_reported_or_harmless(tmp_path, whole):
    """Before the last frame it is damage; in the last frame it reads as a torn tail."""
    last = frame_ends(whole)[-2]
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        put_part(tmp_path, data)
        try:
            lines = read(tmp_path)
        except DamagedShard:
            assert bit // 8 < last, bit
            assert bit % 3 or not verify(tmp_path).ok, bit
        else:
            in_last = bit // 8 >= last
            assert lines == LINES or (in_last and lines == lines_of(FRAMES[:2])), bit


def test_a_writer_changes_nothing_in_a_damaged_shard(tmp_path, whole):
    last = frame_ends(whole)[-2]
    refused = 0
    for bit in range(0, 8 * last, 7):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        put_part(tmp_path, bytes(data))
        with pytest.raises(DamagedShard) as raised:
            ShardWriter(tmp_path, keying=keying).__enter__()
        assert PART in raised.value.where
        assert "frame " in raised.value.where
        assert "at byte " in raised.value.where
        assert (tmp_path / PART).read_bytes() == data
        refused += 1
    assert refused > 50
    assert files(tmp_path) == [PART]


TAILS = {
    "zeros": bytes(4096),
    "garbage": bytes(range(256)) * 3,
    "a magic": b"\x28\xb5\x2f\xfd",
    "many magics": b"\x28\xb5\x2f\xfd" * 50,
    "a skippable frame": b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd",
    "half a seek table": make_seek_table([Frame(0, 10, 20, 30)] * 3)[:30],
    "the table of another shard": make_seek_table([Frame(0, 10, 20, 30)] * 3),
    "newlines": b"\n" * 10,
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_a_tail_of_junk_is_cut(tmp_path, whole, tail):
    put_part(tmp_path, whole + tail)
    assert read(tmp_path) == LINES
    assert resume(tmp_path).cut_bytes == len(tail)
    assert read(tmp_path) == LINES
    assert verify(tmp_path).ok


@settings(max_examples=60)
@given(tail=st.binary(min_size=1, max_size=400), cut=st.integers(0, 200))
def test_any_tail_is_cut(tmp_path_factory, whole, tail, cut):
    directory = tmp_path_factory.mktemp("tail")
    ends = frame_ends(whole)
    size = max(0, len(whole) - cut)
    whole_frames = sum(end <= size for end in ends) - 1
    put_part(directory, whole[:size] + tail)
    lines = read(directory)
    assert lines[: len(lines_of(FRAMES[:whole_frames]))] == lines_of(FRAMES[:whole_frames])
    assert LINES[: len(lines)] == lines
    resume(directory)
    assert read(directory) == lines


@pytest.mark.parametrize("frame", [0, 1])
@pytest.mark.parametrize("where", ["head", "middle", "checksum"])
def test_a_zeroed_page_before_the_tail_is_damage(tmp_path, whole, frame, where):
    start, end = frame_ends(whole)[frame : frame + 2]
    place = {"head": start, "middle": (start + end) // 2, "checksum": end - 4}[where]
    data = whole[:place] + bytes(4) + whole[place + 4 :]
    put_part(tmp_path, data)
    with pytest.raises(DamagedShard, match=f"frame {frame} at byte {start}"):
        read(tmp_path)
    with pytest.raises(DamagedShard, match=f"frame {frame} at byte {start}"):
        resume(tmp_path)


def test_a_bad_frame_with_another_one_begun_behind_it_is_damage(tmp_path, whole):
    """The writer had made it durable before it began the next."""
    ends = frame_ends(whole)
    data = bytearray(whole[: ends[3] - 5])
    data[ends[2] - 1] ^= 1
    put_part(tmp_path, data)
    with pytest.raises(DamagedShard, match="frame 1 at byte"):
        read(tmp_path)


def test_bytes_cut_out_of_the_middle_are_damage(tmp_path, whole):
    ends = frame_ends(whole)
    put_part(tmp_path, whole[: ends[1]] + whole[ends[1] + 3 :])
    with pytest.raises(DamagedShard, match="an intact frame lies behind it"):
        read(tmp_path)


def test_a_foreign_line_in_an_open_shard_is_refused(tmp_path):
    leave_open(tmp_path, [[b'{"other":1}']], keying=lambda one: ("a", 0)).close()
    with pytest.raises(DamagedShard, match="has no key"):
        resume(tmp_path)
    assert files(tmp_path) == [PART]


def test_two_open_shards_are_refused(tmp_path, whole):
    put_part(tmp_path, whole)
    (tmp_path / "shard-00001.jsonl.zst.part").write_bytes(whole)
    with pytest.raises(DamagedShard, match="more than one open shard"):
        resume(tmp_path)


def test_an_open_and_a_sealed_file_of_one_number_are_refused(tmp_path, whole):
    write(tmp_path, LINES)
    put_part(tmp_path, whole)
    with pytest.raises(DamagedShard, match="an open and a sealed file"):
        resume(tmp_path)
    assert not verify(tmp_path).ok


def test_an_empty_open_shard_is_removed_at_the_end(tmp_path):
    put_part(tmp_path, b"")
    resume(tmp_path)
    assert files(tmp_path) == []


def test_an_open_shard_of_nothing_but_tail_is_used(tmp_path, whole):
    put_part(tmp_path, whole[:10])
    resume(tmp_path, [line(9)])
    assert read(tmp_path) == [line(9)]
    assert files(tmp_path)[-1] == "shard-00000.jsonl.zst"


def test_a_half_written_replacement_is_removed(tmp_path):
    write(tmp_path, LINES)
    (tmp_path / "manifest.json.tmp").write_text("{")
    (tmp_path / "shard-00000.idx.npy.tmp").write_text("{")
    resume(tmp_path)
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


def test_a_listed_shard_that_is_gone_is_damage(tmp_path):
    write(tmp_path, LINES)
    (tmp_path / "shard-00000.jsonl.zst").unlink()
    with pytest.raises(DamagedShard, match="missing"):
        resume(tmp_path)
    with pytest.raises(DamagedShard, match="missing"):
        ShardReader(tmp_path)


def test_a_listed_shard_of_another_size_is_damage(tmp_path):
    write(tmp_path, LINES)
    os.truncate(tmp_path / "shard-00000.jsonl.zst", 50)
    with pytest.raises(DamagedShard, match="50 bytes"):
        resume(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 9, "totals": {}, "shards": []}'])
def test_a_manifest_that_cannot_be_read_is_damage(tmp_path, text):
    write(tmp_path, LINES)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DamagedShard, match="manifest"):
        resume(tmp_path)


def test_a_directory_that_cannot_be_written_is_named(tmp_path, whole):
    put_part(tmp_path, whole)
    (tmp_path / ".writer.lock").mkdir()
    with pytest.raises(MachineError, match="EISDIR"):
        resume(tmp_path)
