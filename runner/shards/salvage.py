"""Take damaged bytes out of a shard directory, into files of their own; keep all that is intact.

For each shard that is not whole: its intact frames are copied to a new file, which then replaces
it, and each stretch of other bytes goes to quarantine/SHARD-at-OFFSET.bin, durably and first. A
sealed shard stays a sealed one (with a new seek table), an open one stays open. The manifest and
the indexes are then made again from what is there (`rebuild`). Nothing is deleted but a shard of
which not one frame is intact: its bytes are in quarantine.
"""

import os
from pathlib import Path
from typing import NamedTuple

from runner.errors import DamagedShard
from runner.records import Record
from runner.shards.files import ShardFile, sealed_frames, survey_open
from runner.shards.frames import BadFrame, Frame, find_intact_frame, measure_frame
from runner.shards.index import Keying
from runner.shards.layout import blame, is_open, list_shards, sync_directory, writer_lock
from runner.shards.openshard import write_all
from runner.shards.rebuild import RebuildReport, rebuild
from runner.shards.seektable import make_seek_table, read_seek_table, table_bytes

QUARANTINE = "quarantine"


class SalvageReport(Record, frozen=True, kw_only=True):
    """What was done. `mended` are the shards that were replaced, `quarantined` the files that hold
    what was taken out of them."""

    mended: list[str]
    quarantined: list[str]
    quarantined_bytes: int
    rebuilt: RebuildReport


class _Survey(NamedTuple):
    """A shard's intact frames, and the stretches of bytes between and behind them."""

    frames: list[Frame]
    damaged: list[tuple[int, int]]
    """(offset, size)"""


def salvage(directory: Path, *, keying: Keying) -> SalvageReport:
    """Mend a directory that no writer has. Raises MachineError, DamagedShard (two files of one
    number)."""
    mended: list[str] = []
    quarantined: list[str] = []
    taken = 0
    with writer_lock(directory):
        for path in list_shards(directory).values():
            with ShardFile(path) as file:
                if _is_whole(file):
                    continue
                survey = _look(file)
                with blame(path, "mend a shard"):
                    for offset, size in survey.damaged:
                        quarantined.append(_quarantine(file, offset, size).name)
                        taken += size
                    _replace(file, survey.frames)
            mended.append(path.name)
    return SalvageReport(
        mended=mended,
        quarantined=quarantined,
        quarantined_bytes=taken,
        rebuilt=rebuild(directory, keying=keying),
    )


def _is_whole(file: ShardFile) -> bool:
    """Whether every frame decodes and (sealed) the table tells of them. A torn tail is no damage:
    the next writer cuts it."""
    try:
        opened = is_open(file.path)
        frames = survey_open(file).frames if opened else sealed_frames(file)
        for _ in file.contents(frames):
            pass
    except DamagedShard:
        return False
    return True


def _look(file: ShardFile) -> _Survey:
    """Find every intact frame, wherever it begins."""
    end = _content_end(file)
    frames: list[Frame] = []
    damaged: list[tuple[int, int]] = []
    at = 0
    while at < end:
        try:
            frame = measure_frame(file.read, at)
            file.content(frame)
        except BadFrame:
            found = find_intact_frame(file.read, at + 1, end)
            following = found.offset if found is not None else end
            damaged.append((at, following - at))
            at = following
        else:
            frames.append(frame)
            at = frame.end
    return _Survey(frames, damaged)


def _content_end(file: ShardFile) -> int:
    """Where the frames end: before the seek table, if a whole one ends the file."""
    try:
        return file.size - table_bytes(len(read_seek_table(file.read, file.size)))
    except BadFrame:
        return file.size


def _quarantine(file: ShardFile, offset: int, size: int) -> Path:
    """Copy a stretch of bytes out, durably."""
    folder = file.path.parent / QUARANTINE
    folder.mkdir(exist_ok=True)
    path = folder / f"{file.path.name}-at-{offset}.bin"
    with path.open("wb") as out:
        out.write(file.read(offset, size))
        out.flush()
        os.fsync(out.fileno())
    sync_directory(folder)
    return path


def _replace(file: ShardFile, frames: list[Frame]) -> None:
    """Put a file of only these frames in the place of a shard, whole or not at all."""
    path = file.path
    if not frames:
        path.unlink()
        sync_directory(path.parent)
        return
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        end, kept = 0, []
        for frame in frames:
            write_all(fd, file.read(frame.offset, frame.size), end)
            kept.append(frame._replace(offset=end))
            end += frame.size
        if not is_open(path):
            write_all(fd, make_seek_table(kept), end)
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_directory(path.parent)
