"""Zstandard frames of whole lines: made, measured, decoded and searched for, without any file.

A data frame of ours is a standard zstd frame (RFC 8878) made by one one-shot compress(): content
size present, content checksum present, no dictionary, content = one or more lines, each ending
in a newline. Anything else is `BadFrame`. A frame is measured by its block headers alone, so that
its end is known before a byte of it is decoded, and decoded only on its exact slice: a decoder
that is handed more than one frame may stop after the first one without a word.

The checksum is not optional. Without it a flipped bit yields wrong data about every second time.
"""

from collections.abc import Callable
from typing import NamedTuple

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
MAX_BLOCK_BYTES = 128 * 1024
"""RFC 8878 3.1.1.2.4: no block regenerates more."""
_HEADER_BYTES = len(MAGIC) + 1 + 1 + 8
"""Magic, descriptor, window descriptor, longest content size (there is no dictionary id)."""
_BLOCK_HEADER_BYTES = 3
CHECKSUM_BYTES = 4
_SEARCH_BYTES = 4 * 2**20

Read = Callable[[int, int], bytes]
"""(offset, count) -> up to count bytes; fewer only at the end of the data."""


class BadFrame(Exception):
    """These bytes are not a whole, intact data frame. `str()` says why. Where a file is known it
    becomes a torn tail or a DamagedShard; it never leaves this package."""


class Frame(NamedTuple):
    """Where one data frame lies. `checksum` is the low half of XXH64 of its content."""

    offset: int
    size: int
    raw_size: int
    checksum: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class _Header(NamedTuple):
    size: int
    raw_size: int


def new_compressor(level: int) -> zstandard.ZstdCompressor:
    """A compressor whose frames hold content size and checksum. For one thread at a time."""
    return zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)


def new_decompressor() -> zstandard.ZstdDecompressor:
    """A decompressor for `decode_frame`. For one thread at a time."""
    return zstandard.ZstdDecompressor()


def measure_frame(read: Read, offset: int) -> Frame:
    """Find the extent of the frame at `offset` from its headers, decoding nothing.

    Raises BadFrame when it is not a frame of ours or not whole. The content size is believed only
    as far as the blocks could fill it, so that a flipped bit cannot ask for gigabytes of memory.
    """
    head = read(offset, _HEADER_BYTES)
    header = _parse_header(head)
    at, blocks, last = offset + header.size, 0, False
    while not last:
        at, last = _skip_block(read(at, _BLOCK_HEADER_BYTES), at)
        blocks += 1
    checksum = read(at, CHECKSUM_BYTES)
    if len(checksum) < CHECKSUM_BYTES:
        raise BadFrame("the file ends inside a frame")
    if not 0 < header.raw_size <= blocks * MAX_BLOCK_BYTES:
        raise BadFrame(f"content size {header.raw_size} cannot come from {blocks} block(s)")
    size = at + CHECKSUM_BYTES - offset
    return Frame(offset, size, header.raw_size, int.from_bytes(checksum, "little"))


def _parse_header(head: bytes) -> _Header:
    """RFC 8878 3.1.1.1, only the shapes that our compressor makes."""
    if head[:4] != MAGIC[: len(head)] or len(head) < 5:
        raise BadFrame("no frame begins here" if len(head) >= 4 else "the file ends inside a frame")
    descriptor = head[4]
    size_flag, single_segment = descriptor >> 6, descriptor >> 5 & 1
    if descriptor & 0b0001_1111 != 0b0000_0100:
        raise BadFrame("not a frame of ours: checksum missing, or dictionary or reserved bits set")
    if size_flag == 0 and not single_segment:
        raise BadFrame("not a frame of ours: content size missing")
    at = 5 if single_segment else 6
    count = (1, 2, 4, 8)[size_flag]
    raw_size = int.from_bytes(head[at : at + count], "little") + (256 if size_flag == 1 else 0)
    if len(head) < at + count:
        raise BadFrame("the file ends inside a frame")
    return _Header(at + count, raw_size)


def _skip_block(header: bytes, at: int) -> tuple[int, bool]:
    """Where the block that begins at `at` ends, and whether it is the last one."""
    if len(header) < _BLOCK_HEADER_BYTES:
        raise BadFrame("the file ends inside a frame")
    bits = int.from_bytes(header, "little")
    last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
    if kind == 3 or size > MAX_BLOCK_BYTES:
        raise BadFrame("a block header is broken")
    run_length_encoded = 1
    stored = 1 if kind == run_length_encoded else size
    return at + _BLOCK_HEADER_BYTES + stored, last


def decode_frame(data: bytes, decompressor: zstandard.ZstdDecompressor) -> tuple[Frame, bytes]:
    """Exactly one frame, as if at offset 0: its measures and its content, the checksum verified.
    Raises BadFrame."""
    frame = measure_bytes(data)
    if frame.size != len(data):
        raise BadFrame(f"the frame is {frame.size} bytes long, not {len(data)}")
    try:
        content = decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as exc:
        raise BadFrame(str(exc)) from exc
    if len(content) != frame.raw_size or not content.endswith(b"\n"):
        raise BadFrame("the content is not whole lines of the stated size")
    return frame, content


def measure_bytes(data: bytes) -> Frame:
    """`measure_frame` of the frame that `data` begins with."""
    return measure_frame(lambda offset, count: data[offset : offset + count], 0)


def split_lines(content: bytes) -> list[bytes]:
    """The lines of a frame's content, without their newlines."""
    return content[:-1].split(b"\n")


def walk_frames(read: Read, offset: int) -> tuple[list[Frame], str]:
    """Measure frame after frame from `offset`; return them and why the walk stopped.

    The reason is "" only where the data ends exactly behind a frame. Nothing is decoded.
    """
    frames: list[Frame] = []
    while read(offset, 1):
        try:
            frame = measure_frame(read, offset)
        except BadFrame as bad:
            return frames, str(bad)
        frames.append(frame)
        offset = frame.end
    return frames, ""


def find_intact_frame(read: Read, offset: int, end: int) -> Frame | None:
    """The first frame at or behind `offset` that decodes, wherever it begins, or None.

    This tells a torn tail (nothing good behind it) from damage (something good behind it).
    """
    decompressor = new_decompressor()
    while offset < end:
        chunk = read(offset, _SEARCH_BYTES + len(MAGIC) - 1)
        at = chunk.find(MAGIC)
        while at >= 0:
            frame = _intact_frame_at(read, offset + at, decompressor)
            if frame is not None:
                return frame
            at = chunk.find(MAGIC, at + 1)
        offset += _SEARCH_BYTES
    return None


def _intact_frame_at(
    read: Read, offset: int, decompressor: zstandard.ZstdDecompressor
) -> Frame | None:
    try:
        frame = measure_frame(read, offset)
        decode_frame(read(frame.offset, frame.size), decompressor)
    except BadFrame:
        return None
    return frame
