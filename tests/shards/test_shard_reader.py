"""The reader: a snapshot, of a finished directory or beside a live writer."""

import threading

import numpy as np
import orjson
import pytest

from runner.errors import DamagedShard, MachineError
from runner.shards import (
    INDEX_DTYPE,
    ShardReader,
    ShardWriter,
    index,
    key_hash,
    layout,
    reader,
    view,
)
from tests.shards.shardkit import frame_ends, keying, leave_open, line, some_lines, write

PART = "shard-00000.jsonl.zst.part"
SEALED = "shard-00000.jsonl.zst"


def test_a_missing_directory_is_empty(tmp_path):
    found = ShardReader(tmp_path / "none", keying=keying)
    assert len(found) == 0
    assert list(found.lines()) == []
    assert found.get("a") is None
    assert found.index().dtype == INDEX_DTYPE
    assert len(found.index()) == 0


def test_a_file_instead_of_a_directory_is_named(tmp_path):
    (tmp_path / "samples").write_text("")
    with pytest.raises(MachineError, match="ENOTDIR"):
        ShardReader(tmp_path / "samples")


def test_get_finds_each_line_in_sealed_and_open_shards(tmp_path):
    write(tmp_path, some_lines(40), frame_bytes=200, shard_bytes=300)
    leave_open(tmp_path, [some_lines(5, first=40), some_lines(5, first=45)], number=50).close()
    found = ShardReader(tmp_path, keying=keying)
    for number in range(50):
        assert found.get(f"B4-{number}-0") == line(number)
    assert found.get("B4-50-0") is None


def test_at_is_the_line_of_lines(tmp_path):
    write(tmp_path, some_lines(40), frame_bytes=200, shard_bytes=300)
    found = ShardReader(tmp_path, keying=keying)
    assert [found.at(i) for i in range(40)] == list(found.lines())
    assert found.at(-1) == line(39)
    with pytest.raises(IndexError):
        found.at(40)


def test_the_newest_line_of_a_key_wins(tmp_path):
    write(tmp_path, [line(1, a=1), line(2), line(1, a=2)])
    write(tmp_path, [line(1, a=3), line(3)])
    found = ShardReader(tmp_path, keying=keying)
    assert found.get("B4-1-0") == line(1, a=3)
    assert len(found) == 5


def test_equal_hashes_are_told_apart_by_their_keys(tmp_path, monkeypatch):
    for module in (index, reader):
        monkeypatch.setattr(module, "key_hash", lambda key: 7)
    write(tmp_path, some_lines(3))
    found = ShardReader(tmp_path, keying=keying)
    assert [found.get(f"B4-{n}-0") for n in range(3)] == some_lines(3)
    assert found.get("B4-3-0") is None


def test_key_hash_is_the_same_for_ever():
    assert key_hash("B4-9539-0") == 2195103348740153048


def test_index_tells_keys_and_tags(tmp_path):
    write(tmp_path, [line(5), line(6)])
    rows = ShardReader(tmp_path, keying=keying).index()
    assert rows["key"].tolist() == [key_hash("B4-5-0"), key_hash("B4-6-0")]
    assert rows["tag"].tolist() == [5, 6]
    assert rows["offset"].tolist() == [0, len(line(5)) + 1]
    assert rows["length"].tolist() == [len(line(5)), len(line(6))]


def test_a_tag_of_64_bits(tmp_path):
    big = orjson.dumps({"id": "a", "tag": 2**64 - 1})
    write(tmp_path, [big])
    assert ShardReader(tmp_path, keying=keying).index()["tag"].tolist() == [2**64 - 1]


@pytest.mark.parametrize("change", ["unlink", "flip", "truncate", "junk"])
def test_an_index_file_that_is_not_right_is_made_again(tmp_path, change):
    write(tmp_path, some_lines(40), frame_bytes=200)
    right = ShardReader(tmp_path, keying=keying).index()
    path = tmp_path / "shard-00000.idx.npy"
    data = bytearray(path.read_bytes())
    if change == "unlink":
        path.unlink()
    else:
        data[200] ^= 1
        path.write_bytes({"flip": bytes(data), "truncate": data[:150], "junk": b"junk"}[change])
    found = ShardReader(tmp_path, keying=keying)
    assert np.array_equal(found.index(), right)
    assert found.get("B4-7-0") == line(7)


def test_a_right_index_file_is_used(tmp_path, monkeypatch):
    write(tmp_path, some_lines(40))
    monkeypatch.setattr(view.ShardView, "_read_rows", None)
    assert len(ShardReader(tmp_path, keying=keying).index()) == 40


def test_without_keying_there_are_lines_only(tmp_path):
    write(tmp_path, some_lines(3))
    found = ShardReader(tmp_path)
    assert len(found) == 3
    assert list(found.lines()) == some_lines(3)
    for call in (found.index, lambda: found.get("a"), lambda: found.at(0)):
        with pytest.raises(ValueError, match="keying"):
            call()


def test_a_snapshot_stays_what_it_was(tmp_path):
    with ShardWriter(tmp_path, keying=keying, fsync=False) as writer:
        writer.put(line(0))
        writer.flush()
        found = ShardReader(tmp_path, keying=keying)
        writer.put(line(1))
        writer.flush()
        assert list(found.lines()) == [line(0)]
        assert len(found) == len(found.index()) == 1
        found.refresh()
        assert list(found.lines()) == some_lines(2)
        assert len(found) == len(found.index()) == 2


def test_a_snapshot_outlives_the_sealing(tmp_path):
    with ShardWriter(tmp_path, keying=keying, fsync=False) as writer:
        writer.put(line(0))
        writer.flush()
        found = ShardReader(tmp_path, keying=keying)
        begun = ShardReader(tmp_path).lines()
    assert list(begun) == [line(0)]
    assert list(found.lines()) == [line(0)]
    assert found.get("B4-0-0") == line(0)
    assert len(found) == 1


def test_refresh_reads_only_what_is_new(tmp_path, monkeypatch):
    read = []
    sound = view.ShardFile.sound_content
    monkeypatch.setattr(
        view.ShardFile, "sound_content", lambda *args: read.append(args[2]) or sound(*args)
    )
    with ShardWriter(tmp_path, keying=keying, fsync=False) as writer:
        found = ShardReader(tmp_path, keying=keying)
        for number in range(5):
            writer.put(line(number))
            writer.flush()
            found.refresh()
            assert len(found.index()) == number + 1
    assert read == [0, 1, 2, 3, 4]


def test_refresh_without_news_keeps_the_index(tmp_path):
    write(tmp_path, some_lines(3))
    leave_open(tmp_path, [[line(3)]], number=1).close()
    found = ShardReader(tmp_path, keying=keying)
    before = found.index()
    found.refresh()
    assert found.index() is before


def test_refresh_sees_a_file_that_was_cut_and_written_anew(tmp_path):
    """After a power cut the next writer cuts a frame that a reader may have seen."""
    leave_open(tmp_path, [[line(0)], [line(1)]]).close()
    found = ShardReader(tmp_path, keying=keying)
    assert len(found.index()) == 2
    leave_open(tmp_path / "new", [[line(0)], [line(7, text="other")], [line(8)]]).close()
    (tmp_path / PART).write_bytes((tmp_path / "new" / PART).read_bytes())
    found.refresh()
    assert list(found.lines()) == [line(0), line(7, text="other"), line(8)]
    assert found.get("B4-7-0") == line(7, text="other")
    assert found.get("B4-1-0") is None


def test_refresh_sees_frames_of_equal_size_that_were_written_anew(tmp_path):
    leave_open(tmp_path, [[line(0)], [line(1)], [line(2)]]).close()
    found = ShardReader(tmp_path, keying=keying)
    found.index()
    leave_open(tmp_path / "new", [[line(0)], [line(5)], [line(6)], [line(7)]]).close()
    (tmp_path / PART).write_bytes((tmp_path / "new" / PART).read_bytes())
    found.refresh()
    assert list(found.lines()) == [line(0), line(5), line(6), line(7)]
    assert found.get("B4-5-0") == line(5)
    assert found.get("B4-1-0") is None


def test_a_listing_beside_a_rename_is_taken_again(tmp_path, monkeypatch):
    """A listing may miss a file that is renamed meanwhile, or show it under both names."""
    write(tmp_path, [line(0)])
    both = [f"{SEALED}", f"{SEALED}.part"]
    listings = iter([[], both, [SEALED], [SEALED]])
    monkeypatch.setattr(layout, "_shard_names", lambda directory: next(listings))
    assert len(ShardReader(tmp_path)) == 1


def test_reading_beside_a_writer(tmp_path):
    """Every snapshot is a prefix of what was put, and never shrinks, also across sealings."""
    lines = some_lines(1500)
    stop = threading.Event()
    lengths, wrong = [], []

    def look():
        found = ShardReader(tmp_path, keying=keying)
        while not stop.is_set():
            found.refresh()
            seen = list(found.lines())
            lengths.append(len(seen))
            if seen != lines[: len(seen)] or len(found.index()) != len(seen):
                wrong.append(len(seen))

    with ShardWriter(
        tmp_path, keying=keying, frame_bytes=500, shard_bytes=900, linger_s=0.001, fsync=False
    ) as writer:
        thread = threading.Thread(target=look)
        thread.start()
        for number, one in enumerate(lines):
            writer.put(one)
            if number % 25 == 0:
                writer.flush()
    stop.set()
    thread.join()
    assert wrong == []
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3, "the reader never looked while the writer wrote"
    assert list(ShardReader(tmp_path).lines()) == lines


def test_a_half_written_frame_is_not_there_yet(tmp_path):
    leave_open(tmp_path, [[line(0)], [line(1)]]).close()
    data = (tmp_path / PART).read_bytes()
    (tmp_path / PART).write_bytes(data[:-9])
    found = ShardReader(tmp_path, keying=keying)
    assert list(found.lines()) == [line(0)]
    (tmp_path / PART).write_bytes(data)
    found.refresh()
    assert list(found.lines()) == some_lines(2)


def test_damage_is_raised_on_the_way_not_skipped(tmp_path):
    write(tmp_path, some_lines(40), frame_bytes=200)
    data = bytearray((tmp_path / SEALED).read_bytes())
    data[frame_ends(bytes(data))[1] + 12] ^= 1
    (tmp_path / SEALED).write_bytes(data)
    found = ShardReader(tmp_path, keying=keying)
    seen = found.lines()
    first = next(seen)
    assert first == line(0)
    with pytest.raises(DamagedShard, match=f"{SEALED}, frame 1 at byte"):
        list(seen)
    with pytest.raises(DamagedShard, match="frame 1"):
        [found.get(f"B4-{n}-0") for n in range(40)]


def test_a_foreign_line_is_named(tmp_path):
    write(tmp_path, [b'{"other":1}'], keying=lambda one: ("a", 0))
    (tmp_path / "shard-00000.idx.npy").unlink()
    with pytest.raises(DamagedShard, match="has no key"):
        ShardReader(tmp_path, keying=keying).index()


def test_a_line_longer_than_a_frame(tmp_path):
    long = line(0, ids=list(range(300_000)))
    write(tmp_path, [long, line(1)], frame_bytes=1000)
    assert ShardReader(tmp_path, keying=keying).get("B4-0-0") == long


def test_lines_at_positions_in_any_order(tmp_path):
    write(tmp_path, some_lines(40), frame_bytes=200)
    write(tmp_path, some_lines(20, first=40), frame_bytes=200)
    reader = ShardReader(tmp_path, keying=keying)
    positions = np.array([0, 1, 7, 39, 40, 59, 3, 3])
    assert list(reader.lines_at(positions)) == [reader.at(p) for p in positions.tolist()]
    assert list(reader.lines_at(positions[:0])) == []
    assert list(reader.lines_at(np.arange(60))) == list(reader.lines())


def test_an_index_from_a_file_is_read_only(tmp_path):
    """Whoever wrote into it would change what the next reader of it counts."""
    write(tmp_path, some_lines(3))
    index = ShardReader(tmp_path, keying=keying).index()
    with pytest.raises(ValueError, match="read-only"):
        index["key"] = 0
