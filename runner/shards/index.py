"""The index of a shard directory: where the line of each key is. 32 bytes for each line.

Keys are kept as 64-bit hashes; whoever finds a line by its hash compares the key itself after
reading it. Rows are in the order of writing, so of two rows with one key the later one is newer.
"""

import hashlib
import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from runner.errors import DamagedShard
from runner.shards.frames import Frame

Keying = Callable[[bytes], tuple[str, int]]
"""A line without its newline -> (key, tag). The tag is any number below 2**64, 0 if unused."""

INDEX_DTYPE = np.dtype(
    [
        ("key", "<u8"),
        ("tag", "<u8"),
        ("shard", "<u4"),
        ("frame", "<u4"),
        ("offset", "<u4"),
        ("length", "<u4"),
    ]
)
"""`key` = key_hash(key); `frame` counts from 0 in its shard; `offset` and `length` in bytes of the
frame's decoded content, the newline not counted."""

_pack_row = struct.Struct("<QQIIII").pack
"""One row of INDEX_DTYPE: a frame has a few dozen, too few for columns to be the faster way."""

Index = npt.NDArray[Any]
"""A structured array of INDEX_DTYPE, shape (lines,)."""

KEYING_ERRORS = (ValueError, KeyError, TypeError, msgspec.MsgspecError)
"""What a Keying raises for a line that is not one of its own."""


def key_hash(key: str) -> int:
    """The key as the index knows it: blake2b-8 of its UTF-8, read little-endian, as a u64."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")


def key_of(line: bytes, keying: Keying) -> tuple[int, int]:
    """(hash of the key, tag) of a line. Raises ValueError for a tag that is not a u64."""
    key, tag = keying(line)
    if not 0 <= tag < 2**64:
        raise ValueError(f"tag {tag} of {key!r} is not a number from 0 to 2**64 - 1")
    return key_hash(key), tag


def make_rows(
    lines: Sequence[bytes], keys: Sequence[tuple[int, int]], *, shard: int, frame: int
) -> Index:
    """The rows of one frame: `lines` are its lines in order, `keys` their (hash, tag)."""
    rows, offset = [], 0
    for line, (key, tag) in zip(lines, keys, strict=True):
        rows.append(_pack_row(key, tag, shard, frame, offset, len(line)))
        offset += len(line) + 1
    return np.frombuffer(b"".join(rows), dtype=INDEX_DTYPE)


def rows_from_lines(
    lines: Sequence[bytes], keying: Keying, *, path: Path, shard: int, frame: Frame, ordinal: int
) -> Index:
    """The rows of a frame that was read back. Raises DamagedShard where a line has no key."""
    try:
        keys = [key_of(line, keying) for line in lines]
    except KEYING_ERRORS as exc:
        raise DamagedShard(
            "a line of a shard has no key",
            where=f"{path}, frame {ordinal} at byte {frame.offset}",
            found=f"{type(exc).__name__}: {exc}",
            allowed="lines of the record that this directory is for",
            next_step="check that the right directory is read; verify tells more",
        ) from exc
    return make_rows(lines, keys, shard=shard, frame=ordinal)


def join_rows(parts: Sequence[Index]) -> Index:
    """One index from several, in their order; the very one where there is only one."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=INDEX_DTYPE)


def index_to_bytes(rows: Index) -> bytes:
    """The content of an .idx.npy file."""
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    return buffer.getvalue()


def load_index(path: Path, *, sha256: str) -> Index | None:
    """The index in `path`, read-only, or None when it is missing or not the one with this hash."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    return _view(data)


def _view(data: bytes) -> Index | None:
    """The rows in an .idx.npy file, as they lie there: np.load would copy them."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        return None
    _, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return np.frombuffer(data, dtype, offset=stream.tell()) if dtype == INDEX_DTYPE else None
