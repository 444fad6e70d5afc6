"""The seek table that ends a sealed shard: the zstd seekable format, version 0.1.0, little-endian.

    5E 2A 4D 18 | u32 bytes that follow
    per frame     u32 compressed size, u32 decompressed size, u32 checksum
    u32 frames  | u8 descriptor 0x80 (checksums present) | B1 EA 92 8F

It is a skippable frame, so every zstd reader passes over it. The checksum is the low half of XXH64
of the frame's content, which is also the last 4 bytes of a frame that holds a content checksum:
no hashing is needed to write the table. Source: contrib/seekable_format in facebook/zstd.
"""

import struct
from collections.abc import Sequence

from runner.shards.frames import BadFrame, Frame, Read

_HEAD = struct.Struct("<4sI")
_ENTRY = struct.Struct("<III")
_FOOT = struct.Struct("<IB4s")
_HEAD_MAGIC = b"\x5e\x2a\x4d\x18"
_FOOT_MAGIC = b"\xb1\xea\x92\x8f"
_WITH_CHECKSUMS = 0x80


def table_bytes(frames: int) -> int:
    """The size of a seek table of so many frames."""
    return _HEAD.size + frames * _ENTRY.size + _FOOT.size


def make_seek_table(frames: Sequence[Frame]) -> bytes:
    """The bytes to append behind the last of `frames`."""
    entries = b"".join(_ENTRY.pack(f.size, f.raw_size, f.checksum) for f in frames)
    head = _HEAD.pack(_HEAD_MAGIC, len(entries) + _FOOT.size)
    return head + entries + _FOOT.pack(len(frames), _WITH_CHECKSUMS, _FOOT_MAGIC)


def read_seek_table(read: Read, size: int) -> list[Frame]:
    """The frames that the table at the end of `size` bytes tells of. Raises BadFrame.

    The frames must fill the file exactly from its beginning up to the table.
    """
    foot = read(size - _FOOT.size, _FOOT.size) if size >= table_bytes(1) else b""
    if len(foot) < _FOOT.size:
        raise BadFrame("no seek table: the file is too short")
    count, descriptor, magic = _FOOT.unpack(foot)
    if magic != _FOOT_MAGIC or descriptor != _WITH_CHECKSUMS:
        raise BadFrame("no seek table of ours at the end")
    start = size - table_bytes(count)
    if start <= 0:
        raise BadFrame(f"the seek table tells of {count} frames; the file is too short")
    if read(start, _HEAD.size) != _HEAD.pack(_HEAD_MAGIC, count * _ENTRY.size + _FOOT.size):
        raise BadFrame("the seek table's head does not match its foot")
    frames, end = _unpack(read(start + _HEAD.size, count * _ENTRY.size))
    if end != start or not frames:
        raise BadFrame(f"the seek table tells of {end} bytes of frames; there are {start}")
    return frames


def _unpack(entries: bytes) -> tuple[list[Frame], int]:
    """Frames laid end to end from offset 0, and where the last one ends."""
    frames: list[Frame] = []
    offset = 0
    for size, raw_size, checksum in _ENTRY.iter_unpack(entries):
        frames.append(Frame(offset, size, raw_size, checksum))
        offset += size
    return frames, offset
