"""`parquet` and `hf`: the same ids and masks in columns."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

from tests.export.conftest import Export, lines
from tests.runs.conftest import MIXED, MakeRun, Spec


@pytest.fixture
def wanted(make_run: MakeRun, tmp_path: Path, exported: Export) -> list[dict]:
    """The rows of `pretokenized`, with the run beside them in tmp_path/outputs."""
    run = make_run(MIXED)
    for to in ("pretokenized", "parquet", "hf"):
        exported(run, to=to, out=to, part_bytes=200)
    return lines(tmp_path / "pretokenized" / "train")


def same(rows: list[dict], wanted: list[dict]) -> None:
    assert [row["id"] for row in rows] == [row["id"] for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        assert list(row["input_ids"]) == other["input_ids"]
        assert list(row["loss_mask"]) == other["loss_mask"]
        assert {key: row[key] for key in other["metadata"]} == other["metadata"]


def test_pyarrow_reads_parquet_with_page_checksums(wanted: list[dict], tmp_path: Path) -> None:
    files = sorted((tmp_path / "parquet" / "train").iterdir())
    tables = [pq.read_table(file, page_checksum_verification=True) for file in files]
    table = pa.concat_tables(tables)
    assert table.schema.field("input_ids").type == pa.list_(pa.int32())
    assert table.schema.field("loss_mask").type == pa.list_(pa.int8())
    same(table.to_pylist(), wanted)


def test_a_flipped_bit_in_parquet_is_noticed(wanted: list[dict], tmp_path: Path) -> None:
    path = sorted((tmp_path / "parquet" / "train").iterdir())[0]
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data[column.data_page_offset + column.total_compressed_size - 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(path, page_checksum_verification=True)


def test_ids_are_stored_plainly_and_words_by_dictionary(wanted: list[dict], tmp_path: Path) -> None:
    path = sorted((tmp_path / "parquet" / "train").iterdir())[0]
    group = pq.ParquetFile(path).metadata.row_group(0)
    by_name = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not by_name["input_ids.list.element"].has_dictionary_page
    assert by_name["category"].has_dictionary_page
    assert by_name["input_ids.list.element"].compression == "ZSTD"


def test_duckdb_and_polars_and_datasets_read_parquet(wanted: list[dict], tmp_path: Path) -> None:
    pattern = str(tmp_path / "parquet" / "train" / "*.parquet")
    found = duckdb.sql(f"select id, len(input_ids), list_sum(loss_mask) from '{pattern}'")
    assert sorted(found.fetchall()) == sorted(
        (row["id"], len(row["input_ids"]), sum(row["loss_mask"])) for row in wanted
    )
    assert pl.read_parquet(pattern).height == len(wanted)
    loaded = load_dataset(
        "parquet", data_files=pattern, split="train", cache_dir=str(tmp_path / "cache")
    )
    same(list(loaded), wanted)


def test_datasets_loads_the_folder(wanted: list[dict], tmp_path: Path) -> None:
    loaded = load_from_disk(str(tmp_path / "hf"))
    assert isinstance(loaded, DatasetDict)
    same(list(loaded["train"]), wanted)
    alone = load_from_disk(str(tmp_path / "hf" / "train"))
    assert isinstance(alone, Dataset)
    assert alone.features["input_ids"].feature.dtype == "int32"
    assert alone[1]["id"] == wanted[1]["id"]


def test_two_contents_have_two_fingerprints(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    """`datasets` keeps what it computed under the fingerprint: equal ones would mix the data."""
    for name, output in (
        ("one-aaaaaaaa", "A.</think>B.<|im_end|>"),
        ("two-bbbbbbbb", "C.</think>D.<|im_end|>"),
    ):
        exported(make_run([Spec(0, output=output)], name=name), to="hf", out=name[:3])
    prints = {load_from_disk(str(tmp_path / o / "train"))._fingerprint for o in ("one", "two")}
    assert len(prints) == 2


def test_splits_are_splits(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    run = make_run([Spec(row) for row in range(30)])
    manifest = exported(run, to="hf", split={"train": 0.7, "eval": 0.3})
    loaded = load_from_disk(str(tmp_path / "out"))
    assert {name: len(part) for name, part in loaded.items()} == {
        name: one.samples for name, one in manifest.splits.items()
    }


def test_more_rows_than_a_row_group(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    exported(make_run([Spec(row) for row in range(300)]), to="parquet")
    file = pq.ParquetFile(tmp_path / "out" / "train" / "part-00000.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(2)] == [256, 44]
