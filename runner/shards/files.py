"""Shard files opened to be read, and the one decision about them: torn tail or damage.

A sealed shard is all or nothing: frames from its first byte up to a seek table that tells of
exactly these frames and ends the file.

An open shard is frames up to a tail. Its writer makes one frame durable before it writes the next,
so at most the last frame can be torn: cut short, full of zeros, or of garbage. The tail is what
lies behind the last intact frame, and is "not there yet". But if an intact frame, another frame's
beginning, or a whole seek table lies behind bytes that are wrong, those bytes were durable once:
that is damage, and is never skipped and never cut away.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from runner.errors import DamagedShard
from runner.shards.frames import (
    MAGIC,
    BadFrame,
    Frame,
    decode_frame,
    find_intact_frame,
    new_decompressor,
    walk_frames,
)
from runner.shards.layout import blame
from runner.shards.seektable import read_seek_table, table_bytes

_HASH_BYTES = 4 * 2**20


class DamagedFrame(DamagedShard):
    """Damage at a frame: `ordinal` counts from 0 in its file, `offset` is in bytes of the file."""

    def __init__(self, path: Path, ordinal: int, *, offset: int, found: str) -> None:
        self.ordinal = ordinal
        self.offset = offset
        super().__init__(
            "a shard is damaged",
            where=f"{path}, frame {ordinal} at byte {offset}",
            found=found,
            allowed="whole zstd frames with checksums, as they were written",
            next_step="bring the file back from a copy, or move it away and make its samples "
            "again; nothing was changed",
        )


class ShardFile:
    """An open file descriptor with its size at that moment, and a decompressor. One thread."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError for a missing file, else MachineError."""
        self.path = path
        self._decompressor = new_decompressor()
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError:
            with blame(path, "open a shard"):
                raise
        self.size = os.fstat(self._fd).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def read(self, offset: int, count: int) -> bytes:
        """A `frames.Read` of the file as it was when it was opened. Raises MachineError."""
        with blame(self.path, "read a shard"):
            return os.pread(self._fd, max(0, min(count, self.size - offset)), offset)

    def sha256(self, size: int) -> str:
        """The hash of the first `size` bytes."""
        digest = hashlib.sha256()
        for offset in range(0, size, _HASH_BYTES):
            digest.update(self.read(offset, min(_HASH_BYTES, size - offset)))
        return digest.hexdigest()

    def content(self, frame: Frame) -> bytes:
        """The decoded lines of a frame, verified to be this very frame. Raises BadFrame."""
        found, content = decode_frame(self.read(frame.offset, frame.size), self._decompressor)
        if found[1:] != frame[1:]:
            raise BadFrame("the frame is not the one that the seek table tells of")
        return content

    def contents(self, frames: list[Frame], *, first: int = 0) -> Iterator[tuple[int, bytes]]:
        """(ordinal, content) of frames from number `first` on. Raises DamagedShard."""
        for ordinal in range(first, len(frames)):
            yield ordinal, self.sound_content(frames, ordinal)

    def sound_content(self, frames: list[Frame], ordinal: int) -> bytes:
        """`content` of a frame that must be intact. Raises DamagedFrame."""
        try:
            return self.content(frames[ordinal])
        except BadFrame as bad:
            offset = frames[ordinal].offset
            raise DamagedFrame(self.path, ordinal, offset=offset, found=str(bad)) from bad


class OpenSurvey(NamedTuple):
    """An open shard as found: the frames up to `end`, then `size - end` bytes of tail."""

    frames: list[Frame]
    end: int
    size: int
    tail: str
    """Why the tail is not frames; "" when there is no tail."""


def survey_open(file: ShardFile, *, known: list[Frame] | None = None) -> OpenSurvey:
    """Find the frames of an open shard. Decodes only the last one.

    `known` frames were found before: the walk begins at the last of them, and from the first byte
    if that one is not there any more. Raises DamagedShard.
    """
    if known:
        frames, why = walk_frames(file.read, known[-1].offset)
        if frames and frames[0] == known[-1]:
            return _settle(file, known[:-1] + frames, why)
    frames, why = walk_frames(file.read, 0)
    return _settle(file, frames, why)


def _settle(file: ShardFile, frames: list[Frame], why: str) -> OpenSurvey:
    """Decide what the bytes behind the last intact frame are."""
    end = frames[-1].end if frames else 0
    if frames:
        try:
            file.content(frames[-1])
        except BadFrame as bad:
            followed = file.read(end, len(MAGIC)) == MAGIC
            why, end = str(bad), frames[-1].offset
            frames = frames[:-1]
            if followed:
                raise DamagedFrame(file.path, len(frames), offset=end, found=why) from bad
    if end < file.size:
        _refuse_damage(file, len(frames), end, why)
    return OpenSurvey(frames, end, file.size, why)


def _refuse_damage(file: ShardFile, ordinal: int, end: int, why: str) -> None:
    """Raise DamagedShard if something that was durable lies behind the bad bytes at `end`."""
    try:
        table = read_seek_table(file.read, file.size)
    except BadFrame:
        pass
    else:
        if end == file.size - table_bytes(len(table)):
            return
        found = f"{why}; a whole seek table lies behind it"
        raise DamagedFrame(file.path, ordinal, offset=end, found=found)
    intact = find_intact_frame(file.read, end + 1, file.size)
    if intact is not None:
        found = f"{why}; an intact frame lies behind it at byte {intact.offset}"
        raise DamagedFrame(file.path, ordinal, offset=end, found=found)


def sealed_frames(file: ShardFile) -> list[Frame]:
    """The frames of a sealed shard by its seek table. Raises DamagedShard."""
    try:
        return read_seek_table(file.read, file.size)
    except BadFrame as bad:
        frames, _ = walk_frames(file.read, 0)
        end = frames[-1].end if frames else 0
        raise DamagedFrame(file.path, len(frames), offset=end, found=str(bad)) from bad
