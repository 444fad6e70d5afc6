"""The events of `metrics.jsonl`, one JSON object a line. This file format is a promise.

    {"event": "params",   "at": 1700000000.5, "values": {"model.id": "m", "seed": 1}}
    {"event": "tags",     "at": ..., "values": {"host": "h"}}
    {"event": "metrics",  "at": ..., "step": 1200, "values": {"tokens_per_s": 81.5, "x": "NaN"}}
    {"event": "artifact", "at": ..., "path": "report/index.html", "folder": ""}
    {"event": "table",    "at": ..., "name": "samples.json", "columns": {"id": ["B4-1-0"]}}
    {"event": "dataset",  "at": ..., "name": "n", "source": "s", "digest": "d", "context": "c"}
    {"event": "status",   "at": ..., "status": "running"}

`at` is unix time in seconds, `step` the output tokens so far, an artifact's path is relative to the
run directory. JSON has no NaN, so those three numbers are the strings "NaN", "Infinity" and
"-Infinity", which `float()` reads. Every line is complete JSON, so a torn one never parses.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runner.records import Record, RunStatus
from runner.tracking.masking import Scalar

TABLE_ROWS_MAX = 1000
"""Rows that a table event may hold: the file is a queue, not a store of samples."""


class Params(Record, frozen=True, kw_only=True, tag_field="event", tag="params"):
    """Identity, written once; MLflow never changes a param."""

    at: float
    values: dict[str, Scalar]


class Tags(Record, frozen=True, kw_only=True, tag_field="event", tag="tags"):
    """What may change between attempts; the last one stands."""

    at: float
    values: dict[str, str]


class Metrics(Record, frozen=True, kw_only=True, tag_field="event", tag="metrics"):
    """One point of several series."""

    at: float
    step: int
    values: dict[str, float | str]


class Artifact(Record, frozen=True, kw_only=True, tag_field="event", tag="artifact"):
    """A file of the run directory, sent as it is when it is sent."""

    at: float
    path: str
    folder: str


class Table(Record, frozen=True, kw_only=True, tag_field="event", tag="table"):
    """A small table. A later one of the same name replaces it."""

    at: float
    name: str
    columns: dict[str, list[Any]]


class Dataset(Record, frozen=True, kw_only=True, tag_field="event", tag="dataset"):
    """The data set that the run makes: where it lies and a digest of it."""

    at: float
    name: str
    source: str
    digest: str
    context: str


class Status(Record, frozen=True, kw_only=True, tag_field="event", tag="status"):
    """The state of the run from here on."""

    at: float
    status: RunStatus


Event = Params | Tags | Metrics | Artifact | Table | Dataset | Status

_DECODER = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """One line, its newline included."""
    return msgspec.json.encode(event) + b"\n"


def decode(line: bytes) -> Event | None:
    """The event of one line, or None when the line is damaged or of a kind unknown here."""
    try:
        event: Event = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return event


def storable(text: str) -> str:
    """Text that UTF-8 and every database can hold: no lone surrogates, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def number(value: float) -> float | str:
    """A metric as JSON can hold it."""
    plain = float(value)
    if math.isnan(plain):
        return "NaN"
    if math.isinf(plain):
        return "Infinity" if plain > 0 else "-Infinity"
    return plain


def cell(value: object) -> Any:
    """A table's cell as JSON can hold it: NaN becomes null, anything unknown its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): cell(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [cell(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return cell(value.item())
    return storable(str(value))
