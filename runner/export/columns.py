"""Samples as Arrow columns, in batches: `parquet` and `hf` write the same ones.

`input_ids` is list<int32> and `loss_mask` list<int8>, laid out as in `pretokenized`; the metadata
are columns of their own.
"""

from typing import Any

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


class Batch:
    """Gathers samples until there are `BATCH_ROWS`."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    def add(self, item: Item) -> pa.RecordBatch | None:
        """A full batch, or None."""
        self._items.append(item)
        return self.take() if len(self._items) == BATCH_ROWS else None

    def take(self) -> pa.RecordBatch | None:
        """What there is, or None for nothing."""
        items, self._items = self._items, []
        return record_batch(items) if items else None


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
