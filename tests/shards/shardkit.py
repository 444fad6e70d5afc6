"""What the shard tests share: small lines with keys, and ways to leave a directory behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from runner.shards import ShardReader, ShardWriter
from runner.shards.frames import measure_bytes, new_compressor
from runner.shards.index import key_of, make_rows
from runner.shards.openshard import OpenShard


def keying(line: bytes) -> tuple[str, int]:
    record = orjson.loads(line)
    return record["id"], record.get("tag", 0)


def line(number: int, **more: Any) -> bytes:
    return orjson.dumps({"id": f"B4-{number}-0", "tag": number, **more})


def some_lines(count: int, *, first: int = 0) -> list[bytes]:
    return [line(number) for number in range(first, first + count)]


def write(directory: Path, lines: Sequence[bytes], **options: Any) -> ShardWriter:
    """Write lines in an orderly way: one sealed shard more (unless there are no lines)."""
    options = {"keying": keying, "fsync": False, **options}
    with ShardWriter(directory, **options) as writer:
        for one in lines:
            writer.put(one)
    return writer


def leave_open(
    directory: Path, frames: Sequence[Sequence[bytes]], *, number: int = 0, keying: Any = keying
) -> OpenShard:
    """Leave an open shard with these frames, as a killed writer would."""
    directory.mkdir(parents=True, exist_ok=True)
    shard = OpenShard(directory, number, sync=False)
    compressor = new_compressor(3)
    for lines in frames:
        keys = [key_of(one, keying) for one in lines]
        rows = make_rows(lines, keys, shard=number, frame=shard.frames)
        shard.append(compressor.compress(b"\n".join([*lines, b""])), rows)
    return shard


def frame_ends(data: bytes) -> list[int]:
    """Where the frames of a file end, 0 first."""
    ends = [0]
    while ends[-1] < len(data) and data[ends[-1] :].startswith(b"\x28\xb5\x2f\xfd"):
        ends.append(ends[-1] + measure_bytes(data[ends[-1] :]).size)
    return ends


def read(directory: Path) -> list[bytes]:
    return list(ShardReader(directory).lines())


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != ".writer.lock")
