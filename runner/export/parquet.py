"""`parquet`: ids and loss mask in columns, for DuckDB, Polars, pandas and Hugging Face datasets.

zstd level 3, plain encoding for ids (they have no order that a cleverer one could use), row groups
of 256, and page checksums: without them a flipped bit is read without a word. Only readers that are
told to verify them do (`page_checksum_verification=True` in pyarrow).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from runner.export.columns import REPEATED, SCHEMA, ColumnWriter
from runner.export.formats import Finished, PartFile


class Parquet:
    """See the module."""

    name = "parquet"
    bytes_per_token = 1.3
    holds_ids = True
    ordered = True

    def file_name(self, number: int) -> str:
        return f"part-{number:05d}.parquet"

    def open(self, path: Path) -> ColumnWriter:
        return ColumnWriter(
            pq.ParquetWriter(
                path,
                SCHEMA,
                compression="zstd",
                compression_level=3,
                use_dictionary=list(REPEATED),
                write_page_checksum=True,
            )
        )

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        return Finished()
