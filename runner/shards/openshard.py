"""The open shard of a writer: frames go to its end, durable one by one; sealing finishes it.

Sealing is a row of steps, and a crash between any two of them is picked up by `recover`:
compare the file with what was written, append the seek table and sync, rename and sync the
directory, write the index, list it in the manifest.
"""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from runner.shards.files import DamagedFrame, ShardFile
from runner.shards.frames import Frame, measure_bytes
from runner.shards.index import Index, index_to_bytes, join_rows
from runner.shards.layout import (
    index_path,
    part_path,
    replace_file,
    sealed_path,
    shard_number,
    sync_data,
    sync_directory,
)
from runner.shards.manifest import ShardEntry, load_manifest, store_manifest
from runner.shards.seektable import make_seek_table


class OpenShard:
    """One `.part` file and what is known of it. Used by one thread. All methods raise OSError."""

    def __init__(self, directory: Path, number: int, *, sync: bool) -> None:
        """Open the file, or make it."""
        self.directory = directory
        self.number = number
        self.path = part_path(directory, number)
        self._sync = sync
        self._frames: list[Frame] = []
        self._rows: list[Index] = []
        self._sha256 = hashlib.sha256()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if sync:
            sync_directory(directory)

    @classmethod
    def at(cls, path: Path, *, sync: bool) -> Self:
        """Open the file that a former writer left. Its frames are told by `note`."""
        return cls(path.parent, shard_number(path.name), sync=sync)

    @property
    def end(self) -> int:
        """Where the last durable frame ends."""
        return self._frames[-1].end if self._frames else 0

    @property
    def records(self) -> int:
        return sum(len(rows) for rows in self._rows)

    @property
    def frames(self) -> int:
        return len(self._frames)

    def append(self, data: bytes, rows: Index) -> None:
        """Write one frame, the one after `frames`, and make it durable. On failure the file is cut
        back to `end`."""
        self._write_durably(data)
        self.note(data, rows)

    def note(self, data: bytes, rows: Index) -> None:
        """Take account of a frame that is in the file."""
        frame = measure_bytes(data)._replace(offset=self.end)
        self._frames.append(frame)
        self._rows.append(rows)
        self._sha256.update(data)

    def _write_durably(self, data: bytes) -> None:
        end = self.end
        try:
            write_all(self._fd, data, end)
            if self._sync:
                sync_data(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, end)
            raise

    def cut(self) -> None:
        """Cut off what lies behind `end`, and make sure of what lies before it."""
        os.ftruncate(self._fd, self.end)
        if self._sync:
            os.fsync(self._fd)

    def seal(self) -> ShardEntry | None:
        """Finish the shard and list it. A shard without a frame is removed instead.

        Raises DamagedShard when the file no longer holds what was written to it.
        """
        if not self._frames:
            self.close()
            self.path.unlink()
            return None
        self.compare()
        self.append_table()
        self.close()
        path = self.rename()
        rows = join_rows(self._rows)
        return list_shard(path, rows, frames=self._frames, sha256=self._digest(), sync=self._sync)

    def compare(self) -> None:
        """Re-read the file: byte for byte what was compressed, or DamagedShard."""
        with ShardFile(self.path) as file:
            if file.sha256(self.end) == self._sha256.hexdigest():
                return
            for _ in file.contents(self._frames):
                pass
        found = "its frames are intact but not those that were written"
        raise DamagedFrame(self.path, 0, offset=0, found=found)

    def append_table(self) -> None:
        """Append the seek table and make it durable."""
        self._write_durably(make_seek_table(self._frames))

    def rename(self) -> Path:
        """Give the file its sealed name, durably."""
        path = sealed_path(self.directory, self.number)
        self.path.rename(path)
        if self._sync:
            sync_directory(self.directory)
        return path

    def _digest(self) -> str:
        self._sha256.update(make_seek_table(self._frames))
        return self._sha256.hexdigest()

    def close(self) -> None:
        """Let go of the file. Again: nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_all(fd: int, data: bytes, offset: int) -> None:
    """pwrite until all of it is written; short writes are gone on with. Raises OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def list_shard(
    path: Path, rows: Index, *, frames: Sequence[Frame], sha256: str, sync: bool
) -> ShardEntry:
    """Write the index of a sealed shard, then its line in the manifest. Raises OSError."""
    number = shard_number(path.name)
    index = index_to_bytes(rows)
    replace_file(index_path(path.parent, number), index, sync=sync)
    entry = ShardEntry(
        file=path.name,
        bytes=path.stat().st_size,
        sha256=sha256,
        records=len(rows),
        raw_bytes=sum(frame.raw_size for frame in frames),
        frames=len(frames),
        index_sha256=hashlib.sha256(index).hexdigest(),
    )
    manifest = load_manifest(path.parent)
    manifest[number] = entry
    store_manifest(path.parent, manifest, sync=sync)
    return entry
