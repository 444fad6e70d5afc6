"""Samples as Arrow columns, in batches: `parquet` and `hf` write the same ones.

`input_ids` is list<int32> and `loss_mask` list<int8>, laid out as in `pretokenized`; the metadata
are columns of their own.
"""

from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from runner.export.item import Item, Metadata

BATCH_ROWS = 256
"""Rows of a row group: small ones are read at random quickly (6 ms a sample; 72 ms at 2,048)."""
_TYPES = {str: pa.string(), int: pa.int32()}
_METADATA = {name: _TYPES.get(kind, pa.string()) for name, kind in Metadata.__annotations__.items()}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        *_METADATA.items(),
    ]
)
REPEATED = (
    "run",
    "model",
    "category",
    "source",
    "mode",
    "sampling_digest",
    "finish_reason",
    "flags",
)
"""Columns with few different values: what a dictionary is good for."""


class Sink(Protocol):
    """Where batches go: pyarrow's writers, and its files."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class ColumnWriter:
    """One file of columns. A `PartWriter`. Closes `sink`, and then what lies beneath it."""

    def __init__(self, sink: Sink, *beneath: Any) -> None:
        self._sink = sink
        self._beneath = beneath
        self._items: list[Item] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._write()
        for file in (self._sink, *self._beneath):
            file.close()

    def add(self, item: Item) -> str:
        self._items.append(item)
        if len(self._items) == BATCH_ROWS:
            self._write()
        return ""

    def notes(self) -> dict[str, int]:
        return {}

    def _write(self) -> None:
        items, self._items = self._items, []
        if items:
            self._sink.write_batch(record_batch(items))


def record_batch(items: list[Item]) -> pa.RecordBatch:
    """The columns of these samples."""
    ids = [np.concatenate((item.input_array(), item.output_array())) for item in items]
    masks = [_mask(item.metadata) for item in items]
    rows = [item.metadata for item in items]
    columns: list[Any] = [
        pa.array([item.id for item in items], pa.string()),
        _lists(ids, pa.int32()),
        _lists(masks, pa.int8()),
        *(pa.array([getattr(row, name) for row in rows], t) for name, t in _METADATA.items()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _mask(metadata: Metadata) -> Any:
    mask = np.ones(metadata.prompt_tokens + metadata.completion_tokens, dtype=np.int8)
    mask[: metadata.prompt_tokens] = 0
    return mask


def _lists(values: list[Any], kind: Any) -> Any:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(values), kind))
