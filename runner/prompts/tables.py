"""Tables: Parquet, Arrow (file or stream), CSV, and the folders that `datasets` saves.

Read in batches from the front; only what holds a wanted row is decoded, and only the columns that
are asked for. Arrow gives every struct all fields of its column, so a message without `tool_calls`
comes as `tool_calls: null` and a tool's schema with the properties of every other tool; those nulls
are taken out again (`without_padding`), which also takes out a `null` that was meant.
CSV values are strings; a cell may hold JSON.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from runner.errors import ConfigError, MachineError
from runner.prompts.onefile import OneFile, no_rows, sha256_of, unreadable
from runner.prompts.shape import RowFault
from runner.prompts.source import RowNumbers, pick

BATCH_ROWS = 256
"""Rows decoded at once: trajectories of megabytes come in one row."""
_ARROW_ERRORS = (OSError, pa.ArrowException)


def without_padding(value: Any) -> Any:
    """The value without the keys whose value is null, at every depth."""
    if isinstance(value, dict):
        return {k: without_padding(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_padding(v) for v in value]
    return value


def rows_of_batches(
    batches: Iterator[tuple[int, "pa.RecordBatch | pa.Table"]], rows: RowNumbers
) -> Iterator[tuple[int, Any]]:
    """The wanted rows of consecutive (first row, batch), as plain data without padding."""
    for first, batch in batches:
        begin, end = np.searchsorted(rows, [first, first + batch.num_rows])
        if begin == end:
            continue
        wanted = rows[begin:end]
        for row, value in zip(wanted.tolist(), batch.take(wanted - first).to_pylist(), strict=True):
            yield row, without_padding(value)
        if end == len(rows):
            return


class ParquetSource(OneFile):
    """One Parquet file. Raises ConfigError when it is not one, or is cut."""

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        try:
            sha256 = sha256_of(path)
            with pq.ParquetFile(path) as file:
                self._groups = [
                    file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)
                ]
                self._columns = list(file.schema_arrow.names)
        except _ARROW_ERRORS as error:
            size = path.stat().st_size if path.is_file() else 0
            raise unreadable(path, where, f"{error} (row 0, byte {size:,}: the end)") from error
        super().__init__(path, where, name, sha256=sha256, rows=sum(self._groups))

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        chosen = None if columns is None else [c for c in columns if c in self._columns]
        try:
            yield from rows_of_batches(self._batches(rows, chosen), rows)
        except _ARROW_ERRORS as error:
            raise _broken(self.path, error) from error

    def _batches(
        self, rows: RowNumbers, columns: list[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        with pq.ParquetFile(self.path) as file:
            for group, length in enumerate(self._groups):
                begin, end = np.searchsorted(rows, [first, first + length])
                if begin < end:
                    at = first
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                        yield at, batch
                        at += batch.num_rows
                first += length


class ArrowSource:
    """Arrow files, one after another, as one table: a single .arrow file, or those of a folder that
    `datasets` saved. Raises ConfigError when one is no Arrow file, or is cut."""

    def __init__(self, paths: Sequence[Path], where: str, name: str = "") -> None:
        self.paths, self.name = list(paths), name
        self._rows = 0
        hashes = []
        for path in self.paths:
            try:
                hashes.append(sha256_of(path))
                for batch in _arrow_batches(path):
                    self._rows += batch.num_rows
            except _ARROW_ERRORS as error:
                raise unreadable(path, where, f"{error} (after row {self._rows})") from error
        if not self._rows:
            raise no_rows(self.paths[0], where)
        self._hashes = hashes

    @property
    def identity(self) -> dict[str, Any]:
        return {"sha256": self._hashes[0]} if len(self._hashes) == 1 else {"sha256s": self._hashes}

    def __len__(self) -> int:
        return self._rows

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        yield from rows_of_batches(self._batches(columns), rows)

    def _batches(self, columns: Sequence[str] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        for path in self.paths:
            try:
                for batch in _arrow_batches(path):
                    have = [c for c in columns or () if c in batch.schema.names]
                    yield first, batch if columns is None else batch.select(have)
                    first += batch.num_rows
            except _ARROW_ERRORS as error:
                raise _broken(path, error) from error


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Arrow has two formats for files; `datasets` writes the streaming one. Memory-mapped."""
    with pa.memory_map(str(path)) as data:
        if data.read(6) == b"ARROW1":
            data.seek(0)
            with ipc.open_file(data) as file:
                for i in range(file.num_record_batches):
                    yield file.get_batch(i)
            return
        data.seek(0)
        with ipc.open_stream(data) as stream:
            yield from stream


def saved_arrow_files(folder: Path, where: str) -> list[Path]:
    """The Arrow files of a folder that `Dataset.save_to_disk` wrote, in order.

    Raises:
        ConfigError: it is no such folder, or holds several splits.
    """
    splits = folder / "dataset_dict.json"
    if splits.is_file():
        names = msgspec.json.decode(splits.read_bytes(), type=dict[str, list[str]])["splits"]
        raise ConfigError(
            "This folder holds several splits.",
            where=where,
            found=str(folder),
            allowed=", ".join(str(folder / name) for name in names),
        )
    state = folder / "state.json"
    if not state.is_file():
        raise ConfigError(
            "A folder of prompts is one that `datasets` saved with save_to_disk.",
            where=where,
            found=f"{folder}: no state.json",
            next_step=f"for many files give a glob: '{folder}/*.jsonl'",
        )
    files = msgspec.json.decode(state.read_bytes())["_data_files"]
    return [folder / file["filename"] for file in files]


class CsvSource(OneFile):
    """A CSV file with a header line. Raises ConfigError: unreadable, no header, no rows."""

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        csv.field_size_limit(sys.maxsize)  # its default of 128 KiB is below what a trajectory needs
        try:
            sha256, rows = sha256_of(path), sum(1 for _ in _csv_rows(path))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise unreadable(path, where, str(error)) from error
        super().__init__(path, where, name, sha256=sha256, rows=rows)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        yield from pick(_csv_rows(self.path), rows)


def _csv_rows(path: Path) -> Iterator[Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True)
        for row, values in enumerate(reader):
            yield _csv_row(values, row, reader.line_num, path.name)


def _csv_row(values: dict[Any, Any], row: int, line: int, file: str) -> Any:
    if None in values or None in values.values():
        return RowFault("wrong_shape", f"row {row}, line {line} of {file}: not one cell a column")
    return values


def _broken(path: Path, error: Exception) -> MachineError:
    return MachineError("The prompt file can no longer be read.", where=str(path), found=str(error))


Opener = Callable[[Path, str, str], Any]


def _arrow(path: Path, where: str, name: str) -> ArrowSource:
    return ArrowSource([path], where, name)


OPENERS: dict[str, Opener] = {
    ".parquet": ParquetSource,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".csv": CsvSource,
}
"""File ending -> what reads it."""
