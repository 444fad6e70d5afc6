"""manifest.json: what is sealed in a shard directory. Replaced as a whole, and can be made again.

A shard that is listed here must be there, with these bytes: a listed one that is missing or has
another size is damage. One that is there and not listed was sealed by a writer that was killed
before it could say so; the next writer looks through it and lists it.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from runner.errors import DamagedShard
from runner.records import Record
from runner.shards.layout import MANIFEST, blame, replace_file, shard_number

SCHEMA = 1


class ShardEntry(Record, frozen=True, kw_only=True):
    """One sealed shard. `raw_bytes` and `records` count lines with their newlines, decoded."""

    file: str
    bytes: int
    sha256: str
    records: int
    raw_bytes: int
    frames: int
    index_sha256: str


class Totals(Record, frozen=True, kw_only=True):
    """Sums over all listed shards."""

    shards: int = 0
    bytes: int = 0
    records: int = 0
    raw_bytes: int = 0
    frames: int = 0


class _Document(Record, frozen=True, kw_only=True):
    schema: int
    totals: Totals
    shards: list[ShardEntry]


Manifest = dict[int, ShardEntry]
"""Shard number -> its entry."""


def load_manifest(directory: Path) -> Manifest:
    """What is listed; empty without a file. Raises DamagedShard for one that cannot be read."""
    path = directory / MANIFEST
    try:
        with blame(path, "read the manifest of a shard directory"):
            data = path.read_bytes() if path.exists() else b""
        document = msgspec.json.decode(data, type=_Document) if data else None
        entries = [] if document is None else document.shards
        manifest = {shard_number(entry.file): entry for entry in entries}
    except (msgspec.DecodeError, ValueError) as exc:
        raise _damaged(path, str(exc)) from exc
    if document is not None and document.schema != SCHEMA:
        raise _damaged(path, f"schema {document.schema}")
    return manifest


def store_manifest(directory: Path, manifest: Mapping[int, ShardEntry], *, sync: bool) -> None:
    """Replace manifest.json. Raises OSError."""
    shards = [manifest[number] for number in sorted(manifest)]
    document = _Document(schema=SCHEMA, totals=sum_entries(shards), shards=shards)
    data = msgspec.json.format(msgspec.json.encode(document), indent=2)
    replace_file(directory / MANIFEST, data + b"\n", sync=sync)


def sum_entries(shards: list[ShardEntry]) -> Totals:
    """The totals line of these shards."""
    return Totals(
        shards=len(shards),
        bytes=sum(shard.bytes for shard in shards),
        records=sum(shard.records for shard in shards),
        raw_bytes=sum(shard.raw_bytes for shard in shards),
        frames=sum(shard.frames for shard in shards),
    )


def check_listed(manifest: Manifest, shards: Mapping[int, Path], directory: Path) -> None:
    """Every listed shard is there with its size, or DamagedShard. Reads no shard."""
    for number, entry in manifest.items():
        path = shards.get(number)
        found = "missing" if path is None or path.name != entry.file else ""
        if path is not None and not found and path.stat().st_size != entry.bytes:
            found = f"{path.stat().st_size} bytes"
        if found:
            raise DamagedShard(
                "a sealed shard is not what the manifest says",
                where=str(directory / entry.file),
                found=found,
                allowed=f"{entry.bytes} bytes, sha256 {entry.sha256[:12]}...",
                next_step="bring the file back from a copy, or rebuild the manifest without it",
            )


def _damaged(path: Path, found: str) -> DamagedShard:
    return DamagedShard(
        "the manifest of a shard directory cannot be read",
        where=str(path),
        found=found,
        allowed=f"JSON of schema {SCHEMA}",
        next_step="rebuild it from the shards",
    )
