"""Every file form gives the same rows, read lazily, and a damaged file says where."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.prompts.files import open_files
from runner.prompts.shape import RowFault
from runner.prompts.source import PromptSource
from tests.prompts import rows

CHATS = rows.ULTRACHAT + rows.ULTRACHAT[:1]
Write = Callable[[Path, list[dict[str, Any]]], Path]


def lines(found: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in found)


def as_jsonl(folder: Path, found: list[dict[str, Any]]) -> Path:
    (folder / "p.jsonl").write_bytes(lines(found))
    return folder / "p.jsonl"


def as_gz(folder: Path, found: list[dict[str, Any]]) -> Path:
    (folder / "p.jsonl.gz").write_bytes(gzip.compress(lines(found)))
    return folder / "p.jsonl.gz"


def as_zst(folder: Path, found: list[dict[str, Any]]) -> Path:
    """Two frames, as a file that was appended to has."""
    data = lines(found[:1]), lines(found[1:])
    packed = b"".join(pa.compress(d, codec="zstd", asbytes=True) for d in data)
    (folder / "p.jsonl.zst").write_bytes(packed)
    return folder / "p.jsonl.zst"


def as_json(folder: Path, found: list[dict[str, Any]]) -> Path:
    (folder / "p.json").write_text(json.dumps(found, indent=1))
    return folder / "p.json"


def as_json_lines(folder: Path, found: list[dict[str, Any]]) -> Path:
    (folder / "l.json").write_bytes(lines(found))
    return folder / "l.json"


def as_parquet(folder: Path, found: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(found), folder / "p.parquet", row_group_size=2)
    return folder / "p.parquet"


def as_arrow(folder: Path, found: list[dict[str, Any]]) -> Path:
    table = pa.Table.from_pylist(found)
    with pa.ipc.new_file(folder / "p.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return folder / "p.arrow"


def as_saved(folder: Path, found: list[dict[str, Any]]) -> Path:
    datasets.Dataset.from_list(found).save_to_disk(str(folder / "saved"), num_shards=2)
    return folder / "saved"


FORMS: list[Write] = [
    as_jsonl, as_gz, as_zst, as_json, as_json_lines, as_parquet, as_arrow, as_saved,
]  # fmt: skip


def read(source: PromptSource, *wanted: int) -> list[Any]:
    chosen = wanted or range(len(source))
    return [value for _, value in source.read(np.array(list(chosen), dtype=np.int64))]


@pytest.mark.parametrize("write", FORMS, ids=lambda w: w.__name__)
def test_every_form_gives_the_same_rows(write: Write, tmp_path: Path) -> None:
    (source,) = open_files(str(write(tmp_path, CHATS)), "source.path")
    assert len(source) == len(CHATS)
    assert read(source) == CHATS
    assert [row for row, _ in source.read(np.array([1, 3]))] == [1, 3]
    assert read(source, 1, 3) == [CHATS[1], CHATS[3]]
    assert read(source, 2) == [CHATS[2]]


@pytest.mark.parametrize("write", FORMS, ids=lambda w: w.__name__)
def test_a_source_is_known_by_its_content_not_its_path(write: Write, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    (one,) = open_files(str(write(folders[0], CHATS)), "source.path")
    (same,) = open_files(str(write(folders[1], CHATS)), "source.path")
    (other,) = open_files(str(write(folders[2], CHATS[::-1])), "source.path")
    assert one.identity == same.identity != other.identity


def test_arrows_padding_is_taken_out_again(tmp_path: Path) -> None:
    mixed = [
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f", "p": {"x": 1}}]},
        {"messages": [{"role": "tool", "content": "b", "name": "f"}], "tools": [{"name": "g"}]},
    ]
    for write in (as_parquet, as_saved):
        (source,) = open_files(str(write(tmp_path, mixed)), "source.path")
        assert read(source) == mixed


def test_csv_with_json_in_a_cell_and_newlines(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    messages = json.dumps([{"role": "user", "content": "a\nb"}])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["id", "messages"], ["1", messages], ["2", "x" * 200_000], ["3"]])
    (source,) = open_files(str(path), "source.path")
    first, second, short = read(source)
    assert first == {"id": "1", "messages": messages}
    assert len(second["messages"]) == 200_000
    assert isinstance(short, RowFault)
    assert "row 2, line 4" in short.detail


def test_a_glob_gives_a_source_for_each_file(tmp_path: Path) -> None:
    for name in ("b.part", "a"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines(CHATS))
    found = open_files(f"{tmp_path}/*.jsonl", "source.path")
    assert [source.name for source in found] == ["a", "b"]
    assert [len(source) for source in found] == [4, 4]
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines(CHATS)))
    with pytest.raises(ConfigError, match=r"b\.jsonl\.gz"):
        open_files(f"{tmp_path}/*", "source.path")


def test_blank_lines_are_no_rows_and_the_last_line_needs_no_newline(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": 2}')
    (source,) = open_files(str(path), "source.path")
    assert read(source) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("name", "content"),
    [("none.jsonl", None), ("empty.jsonl", b"\n"), ("empty.json", b"[]"), ("p.xlsx", b"x")],
)
def test_what_cannot_be_a_prompt_file(name: str, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=name) as caught:
        open_files(str(path), "source.path")
    assert caught.value.where == "source.path"


def test_a_byte_order_mark_belongs_to_the_file_and_not_to_its_first_row(tmp_path: Path) -> None:
    mark = "\ufeff".encode()
    for name, content in (
        ("p.jsonl", lines(CHATS)),
        ("l.json", lines(CHATS)),
        ("a.json", json.dumps(CHATS).encode()),
        ("p.jsonl.gz", lines(CHATS)),
        ("p.csv", b"prompt\r\n1\r\n"),
    ):
        path = tmp_path / name
        path.write_bytes(gzip.compress(mark + content) if "gz" in name else mark + content)
        (source,) = open_files(str(path), "source.path")
        assert read(source) == ([{"prompt": "1"}] if "csv" in name else CHATS), name


@pytest.mark.parametrize("escaped", [r"\ud800", r"a\udc00", r"\ud800\ud800", r"\ud83d\ude00\udfff"])
def test_a_lone_surrogate_is_no_text_and_not_a_broken_file(escaped: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"a": 1}}\n{{"prompt": "{escaped}"}}\n')
    fault = read(open_files(str(path), "source.path")[0])[1]
    assert isinstance(fault, RowFault)
    assert fault.reason == "not_text"
    assert "row 1, byte 9 of p.jsonl" in fault.detail


def test_a_cut_jsonl_names_row_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "tor')
    (source,) = open_files(str(path), "source.path")
    whole, cut = read(source)
    assert whole == {"a": 1}
    assert isinstance(cut, RowFault)
    assert "row 1, byte 9 of p.jsonl" in cut.detail
    assert "the file ends inside this row" in cut.detail


@pytest.mark.parametrize("write", [as_gz, as_zst, as_json, as_parquet, as_arrow])
def test_any_other_file_that_is_cut_is_refused_with_row_and_byte(
    write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path, CHATS * 200)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ConfigError, match=r"row \d+"):
        open_files(str(path), "source.path")


def test_a_cut_json_array_names_the_row_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('[{"a": "x"}, {"a": "]} \\" tor')
    with pytest.raises(ConfigError, match="row 1, which begins at byte 13"):
        open_files(str(path), "source.path")


@given(found=st.lists(st.dictionaries(st.text(), st.text() | st.lists(st.text())), min_size=1))
def test_rows_of_an_array_are_found_whatever_their_text(
    tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("array") / "p.json"
    path.write_text(json.dumps(found))
    (source,) = open_files(str(path), "source.path")
    assert read(source) == found


def test_a_folder_of_splits_says_which(tmp_path: Path) -> None:
    split = datasets.Dataset.from_list(CHATS)
    datasets.DatasetDict({"train": split, "test": split}).save_to_disk(str(tmp_path / "d"))
    with pytest.raises(ConfigError, match="d/train"):
        open_files(str(tmp_path / "d"), "source.path")
    with pytest.raises(ConfigError, match="save_to_disk"):
        open_files(str(tmp_path), "source.path")
    assert read(open_files(str(tmp_path / "d" / "test"), "source.path")[0]) == CHATS
