"""Standard tools read sealed shards with no code of ours."""

import io
import shutil
import subprocess

import duckdb
import orjson
import pandas as pd
import polars as pl
import pytest
import pyzstd
import zstandard

from tests.shards.shardkit import line, write

COUNT = 500
LINES = [line(n, output_ids=[n, 163_839, 0], finish="stop", text="é\u2028") for n in range(COUNT)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two sealed shards of several frames each."""
    directory = tmp_path_factory.mktemp("sealed")
    write(directory, LINES[:300], frame_bytes=1000)
    write(directory, LINES[300:], frame_bytes=1000)
    return directory


@pytest.fixture(scope="module")
def shards(directory):
    return sorted(directory.glob("*.jsonl.zst"))


def test_pyzstd_reads_and_seeks_by_our_table(shards):
    with pyzstd.SeekableZstdFile(shards[0], "r") as file:
        assert file.seekable()
        assert file.read().splitlines() == LINES[:300]
        at = len(b"\n".join(LINES[:299])) + 1
        file.seek(at)
        assert file.readline() == LINES[299] + b"\n"


def test_pyzstd_counts_our_frames(shards):
    with pyzstd.SeekableZstdFile(shards[0], "r") as file:
        frames, compressed, decompressed = file.seek_table_info
    assert frames > 10
    assert compressed < shards[0].stat().st_size
    assert decompressed == sum(len(one) + 1 for one in LINES[:300])


@pytest.mark.skipif(shutil.which("zstdcat") is None, reason="no zstdcat on this machine")
def test_zstdcat(shards):
    output = subprocess.run(["zstdcat", *shards], capture_output=True, check=True).stdout
    assert output.splitlines() == LINES


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd on this machine")
def test_zstd_test(shards):
    subprocess.run(["zstd", "-t", "-q", *shards], check=True)


def test_zstandard_open(shards):
    with zstandard.open(shards[0], "rt", encoding="utf-8", newline="\n") as file:
        assert [one.rstrip("\n").encode() for one in file] == LINES[:300]


def test_zstandard_stream_reader(shards):
    with shards[0].open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        assert io.BufferedReader(stream).read().splitlines() == LINES[:300]


def test_the_trap_zstandard_one_shot_stops_at_the_first_frame(shards):
    """Why the recipes warn of it: no error, a fraction of the lines."""
    lines = zstandard.ZstdDecompressor().decompress(shards[0].read_bytes()).splitlines()
    assert 0 < len(lines) < 100


def test_duckdb(directory):
    query = (
        f"SELECT id, tag, output_ids FROM read_json_auto('{directory}/*.jsonl.zst') ORDER BY tag"
    )
    rows = duckdb.sql(query).fetchall()
    assert [row[1] for row in rows] == list(range(COUNT))
    assert rows[7] == ("B4-7-0", 7, [7, 163_839, 0])


def test_polars(shards):
    frame = pl.concat([pl.read_ndjson(shard) for shard in shards])
    assert frame["tag"].to_list() == list(range(COUNT))
    assert frame["output_ids"].dtype == pl.List(pl.Int64)


def test_pandas(shards):
    frame = pd.concat([pd.read_json(shard, lines=True) for shard in shards])
    assert frame["tag"].tolist() == list(range(COUNT))


def test_the_manifest_is_plain_json(directory):
    document = orjson.loads((directory / "manifest.json").read_bytes())
    assert document["totals"]["records"] == COUNT
    assert [shard["records"] for shard in document["shards"]] == [300, 200]
