"""verify lists what is wrong and raises nothing for it; rebuild makes manifest and index again."""

import hashlib
import importlib

import numpy as np
import orjson
import pytest

from runner.errors import DamagedShard, MachineError
from runner.shards import ShardReader, ShardWriter, rebuild, verify
from runner.shards.index import index_to_bytes
from tests.shards.shardkit import files, frame_ends, keying, leave_open, line, some_lines, write

SEALED = "shard-00000.jsonl.zst"
INDEX = "shard-00000.idx.npy"


@pytest.fixture
def directory(tmp_path):
    """Two sealed shards of several frames."""
    write(tmp_path, some_lines(40), frame_bytes=200)
    write(tmp_path, some_lines(20, first=40), frame_bytes=200)
    return tmp_path


def kinds(report):
    return [problem.kind for problem in report.problems]


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def edit_manifest(directory, **changes):
    path = directory / "manifest.json"
    document = orjson.loads(path.read_bytes())
    document["shards"][0].update(changes)
    path.write_bytes(orjson.dumps(document))


@pytest.mark.parametrize("full", [False, True])
def test_nothing_wrong(directory, full):
    report = verify(directory, full=full, keying=keying)
    assert report.ok
    assert (report.shards, report.records, report.tail_bytes) == (2, 60, 0)
    assert report.raw_bytes == sum(len(one) + 1 for one in some_lines(60))


def test_a_damaged_frame_is_placed(directory):
    ends = frame_ends((directory / SEALED).read_bytes())
    flip(directory / SEALED, ends[2] + 12)
    report = verify(directory)
    problem = report.problems[0]
    assert (problem.kind, problem.file, problem.frame, problem.offset) == (
        "frame", SEALED, 2, ends[2],
    )  # fmt: skip
    assert {"hash", "count"} <= set(kinds(report))
    assert not report.ok


def test_all_damaged_frames_are_listed(directory):
    ends = frame_ends((directory / SEALED).read_bytes())
    for frame in (0, 2, 3):
        flip(directory / SEALED, ends[frame] + 12)
    frames = [problem.frame for problem in verify(directory).problems if problem.kind == "frame"]
    assert frames == [0, 2, 3]


def test_a_damaged_seek_table(directory):
    flip(directory / SEALED, -1)
    assert kinds(verify(directory)) == ["frame", "hash"]


def test_damage_in_an_open_shard_is_listed_once(tmp_path):
    shard = leave_open(tmp_path, [[line(0)], [line(1)], [line(2)]])
    shard.close()
    flip(shard.path, 14)
    report = verify(tmp_path)
    assert [(problem.kind, problem.frame) for problem in report.problems] == [("frame", 0)]


def test_a_torn_tail_is_no_problem(tmp_path):
    shard = leave_open(tmp_path, [[line(0)], [line(1)]])
    shard.close()
    shard.path.write_bytes(shard.path.read_bytes() + b"\x28\xb5\x2f\xfdtorn")
    report = verify(tmp_path, full=True, keying=keying)
    assert report.ok
    assert (report.records, report.tail_bytes) == (2, 8)


def test_a_missing_shard(directory):
    (directory / SEALED).unlink()
    assert kinds(verify(directory)) == ["missing"]


@pytest.mark.parametrize("name", ["records", "frames", "raw_bytes", "bytes"])
def test_a_count_that_differs(directory, name):
    edit_manifest(directory, **{name: 1})
    report = verify(directory)
    assert kinds(report) == ["count"]
    assert "manifest says 1" in report.problems[0].what


def test_a_hash_that_differs(directory):
    edit_manifest(directory, sha256="0" * 64)
    assert kinds(verify(directory)) == ["hash"]


def test_a_manifest_that_cannot_be_read(directory):
    (directory / "manifest.json").write_text("{")
    report = verify(directory)
    assert kinds(report) == ["manifest"]
    assert report.problems[0].file == "manifest.json"


def test_a_line_that_is_no_json_object(tmp_path):
    write(tmp_path, [b"[1]", b"nothing", line(0)], keying=lambda one: (one.hex(), 0))
    assert verify(tmp_path).ok, "a quick look parses nothing"
    report = verify(tmp_path, full=True)
    assert kinds(report) == ["json", "json"]
    assert "line 1 " in report.problems[1].what


def test_a_line_without_key(tmp_path):
    write(tmp_path, [b'{"other":1}'], keying=lambda one: ("a", 0))
    assert "key" in kinds(verify(tmp_path, full=True, keying=keying))


def test_a_key_twice(directory):
    write(directory, [line(3), line(99)])
    assert verify(directory).ok
    report = verify(directory, full=True, keying=keying)
    assert kinds(report) == ["duplicate"]
    assert "'B4-3-0' is in shard-00000.jsonl.zst" in report.problems[0].what
    assert report.problems[0].file == "shard-00002.jsonl.zst"


def test_a_missing_index(directory):
    (directory / INDEX).unlink()
    assert kinds(verify(directory, full=True, keying=keying)) == ["index"]


def test_an_index_of_other_lines(directory):
    rows = np.load(directory / INDEX)
    rows["key"][3] ^= np.uint64(1)
    (directory / INDEX).write_bytes(index_to_bytes(rows))
    sha256 = hashlib.sha256((directory / INDEX).read_bytes()).hexdigest()
    edit_manifest(directory, index_sha256=sha256)
    report = verify(directory, full=True, keying=keying)
    assert kinds(report) == ["index"]
    assert "does not tell" in report.problems[0].what


def test_an_empty_directory(tmp_path):
    assert verify(tmp_path, full=True, keying=keying).ok


def test_verify_beside_a_writer(tmp_path):
    with ShardWriter(tmp_path, keying=keying, fsync=False) as writer:
        writer.put(line(0))
        writer.flush()
        assert verify(tmp_path, full=True, keying=keying).records == 1


def test_rebuild_makes_the_same_files(directory):
    before = {name: (directory / name).read_bytes() for name in files(directory)}
    for name in ("manifest.json", INDEX, "shard-00001.idx.npy"):
        (directory / name).unlink()
    report = rebuild(directory, keying=keying)
    assert (report.shards, report.records, report.forgotten) == (2, 60, [])
    assert {name: (directory / name).read_bytes() for name in files(directory)} == before


def test_rebuild_of_a_manifest_that_cannot_be_read(directory):
    (directory / "manifest.json").write_text("{")
    rebuild(directory, keying=keying)
    assert verify(directory, full=True, keying=keying).ok


def test_rebuild_forgets_a_shard_that_is_gone_and_says_so(directory):
    (directory / SEALED).unlink()
    assert rebuild(directory, keying=keying).forgotten == [SEALED]
    assert files(directory) == ["manifest.json", "shard-00001.idx.npy", "shard-00001.jsonl.zst"]
    assert len(ShardReader(directory)) == 20


def test_rebuild_leaves_an_open_shard_alone(directory):
    shard = leave_open(directory, [[line(60)]], number=2)
    shard.close()
    before = shard.path.read_bytes()
    assert rebuild(directory, keying=keying).shards == 2
    assert shard.path.read_bytes() == before
    assert len(ShardReader(directory)) == 61


def test_rebuild_refuses_damage_and_changes_nothing(directory):
    flip(directory / SEALED, 20)
    before = (directory / "manifest.json").read_bytes()
    with pytest.raises(DamagedShard):
        rebuild(directory, keying=keying)
    assert (directory / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("moment", ["load_manifest", "list_shards", "_look_at"])
@pytest.mark.parametrize("before", [True, False])
def test_a_shard_that_is_sealed_meanwhile_is_no_problem(tmp_path, monkeypatch, moment, before):
    module = importlib.import_module("runner.shards.verify")
    with ShardWriter(tmp_path, keying=keying) as writer:
        for number in range(3):
            writer.put(line(number))
        writer.flush()
        original = getattr(module, moment)

        def sealing(*args, **more):
            if before:
                writer.close()
            found = original(*args, **more)
            writer.close()
            return found

        monkeypatch.setattr(module, moment, sealing)
        report = verify(tmp_path, full=True, keying=keying)
    assert report.problems == []
    assert (report.shards, report.records) == (1, 3)


def test_rebuild_beside_a_writer_is_refused(tmp_path):
    with ShardWriter(tmp_path, keying=keying), pytest.raises(MachineError, match="another writer"):
        rebuild(tmp_path, keying=keying)
