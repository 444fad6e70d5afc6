"""What a writer does first: look at what the last one left, and bring it into order.

Left by a writer that was killed, or by a machine that went down:
  - a torn tail behind the last intact frame of the open shard: cut off
  - a seek table, whole or torn, at the end of the open shard: cut off, it is made again
  - a sealed shard without its index or its line in the manifest: looked through and listed
  - a half-written replacement file: removed
Everything is looked at before anything is changed, and damage is reported with nothing changed.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from runner.errors import DamagedShard
from runner.records import Record
from runner.shards.files import ShardFile, sealed_frames, survey_open
from runner.shards.frames import Frame, split_lines
from runner.shards.index import Index, Keying, join_rows, rows_from_lines
from runner.shards.layout import blame, is_open, list_shards
from runner.shards.manifest import check_listed, load_manifest
from runner.shards.openshard import OpenShard, list_shard


class Recovery(Record, frozen=True, kw_only=True):
    """What was found and done at the start. All 0 after an orderly end."""

    continued_records: int = 0
    """Lines in the open shard that is gone on with."""
    cut_bytes: int = 0
    """Bytes of tail or seek table that were cut off the open shard."""
    listed_shards: int = 0
    """Sealed shards that the manifest did not tell of."""


class Recovered(NamedTuple):
    """The state that a writer starts from."""

    open_shard: OpenShard | None
    next_number: int
    report: Recovery


class Sealed(NamedTuple):
    """A sealed shard that was looked through."""

    path: Path
    frames: list[Frame]
    rows: Index
    sha256: str


def recover(directory: Path, *, keying: Keying, sync: bool) -> Recovered:
    """Bring the directory into order, under its lock. Raises DamagedShard, MachineError."""
    shards = list_shards(directory)
    manifest = load_manifest(directory)
    check_listed(manifest, shards, directory)
    open_path = _only_open(shards)
    unlisted = [
        inspect_sealed(path, number, keying)
        for number, path in shards.items()
        if number not in manifest and not is_open(path)
    ]
    with blame(directory, "recover a shard directory"):
        open_shard, cut_bytes = _reopen(open_path, keying, sync=sync) if open_path else (None, 0)
        _tidy(directory, unlisted, sync=sync)
    report = Recovery(
        continued_records=open_shard.records if open_shard else 0,
        cut_bytes=cut_bytes,
        listed_shards=len(unlisted),
    )
    return Recovered(open_shard, max(shards, default=-1) + 1, report)


def _only_open(shards: dict[int, Path]) -> Path | None:
    """The open shard, if any. A writer leaves at most one, and it is the last."""
    opened = [path for path in shards.values() if is_open(path)]
    if len(opened) > 1:
        raise DamagedShard(
            "more than one open shard",
            where=", ".join(str(path) for path in opened),
            allowed="one: a writer seals a shard before it opens the next",
            next_step="move the ones that do not belong here out of the directory",
        )
    return opened[0] if opened else None


def inspect_sealed(path: Path, number: int, keying: Keying) -> Sealed:
    """Decode and index all of a sealed shard. Raises DamagedShard."""
    digest = hashlib.sha256()
    rows = []
    with ShardFile(path) as file:
        frames = sealed_frames(file)
        for ordinal, content in file.contents(frames):
            frame, lines = frames[ordinal], split_lines(content)
            digest.update(file.read(frame.offset, frame.size))
            rows.append(
                rows_from_lines(
                    lines, keying, path=path, shard=number, frame=frame, ordinal=ordinal
                )
            )
        digest.update(file.read(frames[-1].end, file.size))
    return Sealed(path, frames, join_rows(rows), digest.hexdigest())


def _reopen(path: Path, keying: Keying, *, sync: bool) -> tuple[OpenShard, int]:
    """Decode and index the open shard, then cut its tail. The shard and the bytes cut."""
    shard = OpenShard.at(path, sync=sync)
    try:
        with ShardFile(path) as file:
            survey = survey_open(file)
            for ordinal, content in file.contents(survey.frames):
                frame, lines = survey.frames[ordinal], split_lines(content)
                rows = rows_from_lines(
                    lines, keying, path=path, shard=shard.number, frame=frame, ordinal=ordinal
                )
                shard.note(file.read(frame.offset, frame.size), rows)
        shard.cut()
    except BaseException:
        shard.close()
        raise
    return shard, survey.size - survey.end


def _tidy(directory: Path, unlisted: list[Sealed], *, sync: bool) -> None:
    for leftover in (*directory.glob("shard-*.tmp"), *directory.glob("manifest.json.tmp")):
        leftover.unlink()
    for sealed in unlisted:
        list_shard(sealed.path, sealed.rows, frames=sealed.frames, sha256=sealed.sha256, sync=sync)
