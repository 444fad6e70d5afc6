"""`parquet`: ids and loss mask in columns, for DuckDB, Polars, pandas and Hugging Face datasets.

zstd level 3, plain encoding for ids (they have no order that a cleverer one could use), row groups
of 256, and page checksums: without them a flipped bit is read without a word. Only readers that are
told to verify them do (`page_checksum_verification=True` in pyarrow).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.parquet as pq

from runner.export.columns import REPEATED, SCHEMA, Batch
from runner.export.formats import Finished, PartFile
from runner.export.item import Item


class Parquet:
    """See the module."""

    name = "parquet"
    bytes_per_token = 1.3
    holds_ids = True
    ordered = True

    def file_name(self, number: int) -> str:
        return f"part-{number:05d}.parquet"

    def open(self, path: Path) -> "ParquetWriter":
        return ParquetWriter(path)

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        return Finished()


class ParquetWriter:
    """One file. A `PartWriter`."""

    def __init__(self, path: Path) -> None:
        self._batch = Batch()
        self._writer = pq.ParquetWriter(
            path,
            SCHEMA,
            compression="zstd",
            compression_level=3,
            use_dictionary=list(REPEATED),
            write_page_checksum=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and (batch := self._batch.take()) is not None:
            self._writer.write_batch(batch)
        self._writer.close()

    def add(self, item: Item) -> str:
        if (batch := self._batch.add(item)) is not None:
            self._writer.write_batch(batch)
        return ""

    def notes(self) -> dict[str, int]:
        return {}
