"""Every reader that people use reads all rows of sealed sample shards with the right types, and the
same types in every shard whatever the rows of one shard happen to hold."""

import io
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pytest
import pyzstd
import zstandard

from tests.runkit import planned, sample, write

COUNT = 300
SAMPLES = [sample(planned(n), finish="stop" if n < 150 else "length") for n in range(COUNT)]
TEXTS = ("run_id", "sample_id", "category", "source", "prompt_hash", "matched_text", "endpoint")
NUMBERS = ("row", "k", "try", "matched_token", "finish_length", "cached_tokens", "launch")
IDS = ("input_ids", "output_ids")
SECONDS = ("sent_at", "latency_s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sealed shards of several frames each, that differ in what their rows hold."""
    folder = tmp_path_factory.mktemp("samples")
    for part in (SAMPLES[:150], SAMPLES[150:]):
        write(folder, part, frame_bytes=20_000)
    return folder


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl.zst"))


def by_zstdcat(folder: Path) -> Iterable[bytes]:
    if shutil.which("zstdcat") is None:
        pytest.skip("no zstdcat on this machine")
    return subprocess.run(["zstdcat", *files(folder)], capture_output=True, check=True).stdout


def by_zstandard(folder: Path) -> bytes:
    read = [zstandard.open(path, "rb") for path in files(folder)]
    return b"".join(io.BufferedReader(one).read() for one in read)


def by_pyzstd(folder: Path) -> bytes:
    found = b""
    for path in files(folder):
        with pyzstd.SeekableZstdFile(path, "r") as file:
            found += file.read()
    return found


@pytest.mark.parametrize("read", [by_zstdcat, by_zstandard, by_pyzstd])
def test_the_bytes_are_all_there(folder: Path, read: Callable[[Path], bytes]) -> None:
    rows = [orjson.loads(line) for line in read(folder).splitlines()]
    assert [row["sample_id"] for row in rows] == [one.sample_id for one in SAMPLES]
    assert [row["output_ids"] for row in rows] == [one.output_ids for one in SAMPLES]


def right(rows: list[dict[str, Any]]) -> None:
    assert [row["sample_id"] for row in rows] == [one.sample_id for one in SAMPLES]
    for row, one in zip(rows, SAMPLES, strict=True):
        assert list(row["output_ids"]) == one.output_ids
        assert row["try"] == one.try_
        assert row["finish"] == one.finish


def test_pandas(folder: Path) -> None:
    frames = [pd.read_json(path, lines=True) for path in files(folder)]
    assert [str(one) for one in frames[0].dtypes] == [str(one) for one in frames[1].dtypes]
    frame = pd.concat(frames)
    assert all(frame[name].dtype.kind == "i" for name in NUMBERS)
    assert not frame.isna().any().any()
    right(frame.to_dict("records"))


def test_polars(folder: Path) -> None:
    frames = [pl.read_ndjson(path) for path in files(folder)]
    assert frames[0].schema == frames[1].schema
    schema = frames[0].schema
    assert all(schema[name] == pl.String for name in TEXTS)
    assert all(schema[name] == pl.Int64 for name in NUMBERS)
    assert all(schema[name] == pl.List(pl.Int64) for name in IDS)
    assert all(schema[name] == pl.Float64 for name in SECONDS)
    frame = pl.concat(frames)
    assert frame.null_count().sum_horizontal().item() == 0
    right(frame.to_dicts())


def test_duckdb(folder: Path) -> None:
    def types(path: str) -> list[tuple[str, str]]:
        told = duckdb.sql(f"DESCRIBE SELECT * FROM read_json_auto('{path}')").fetchall()
        return [(name, kind) for name, kind, *_ in told]

    first, second = (dict(types(str(path))) for path in files(folder))
    assert first == second == dict(types(f"{folder}/*.jsonl.zst"))
    assert {first[name] for name in NUMBERS} == {"BIGINT"}
    assert {first[name] for name in IDS} == {"BIGINT[]"}
    assert {first[name] for name in TEXTS} == {"VARCHAR"}
    query = f"SELECT * FROM read_json_auto('{folder}/*.jsonl.zst') ORDER BY row"
    result = duckdb.sql(query)
    right([dict(zip(result.columns, row, strict=True)) for row in result.fetchall()])


def test_pyarrow(folder: Path) -> None:
    options = pyarrow.json.ReadOptions(block_size=2**24)
    tables = []
    for path in files(folder):
        with pa.input_stream(str(path), compression="zstd") as stream:
            tables.append(pyarrow.json.read_json(stream, read_options=options))
    assert tables[0].schema == tables[1].schema
    schema = tables[0].schema
    assert all(schema.field(name).type == pa.int64() for name in NUMBERS)
    assert all(schema.field(name).type == pa.list_(pa.int64()) for name in IDS)
    table = pa.concat_tables(tables)
    assert sum(pc.sum(pc.is_null(column)).as_py() for column in table.columns) == 0
    right(table.to_pylist())


def test_hugging_face_datasets(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    paths = [str(path) for path in files(folder)]
    rows = datasets.load_dataset(
        "json", data_files=paths, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert {rows.features[name].dtype for name in NUMBERS} == {"int64"}
    assert {rows.features[name].dtype for name in TEXTS} == {"string"}
    right(list(rows))
