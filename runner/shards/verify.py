"""Look for anything wrong in a shard directory and list it; nothing is changed or raised for it.

Quick: every frame decodes to whole lines with the right checksum, the seek tables tell of exactly
these frames, and sealed files have the size, hash and counts of the manifest. Full: also every
line is a JSON object, every key is there once, and the index files hold the right rows.

Not seen: an altered shard whose checksums, seek table, manifest and index were all altered to
match. A live directory can be verified: its open shard is looked at up to its last whole frame,
and one that is sealed meanwhile is what it was.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import orjson

from runner.errors import MachineError
from runner.records import Record
from runner.shards.files import DamagedFrame, ShardFile, sealed_frames, survey_open
from runner.shards.frames import BadFrame, Frame, split_lines, walk_frames
from runner.shards.index import (
    KEYING_ERRORS,
    Index,
    Keying,
    join_rows,
    key_of,
    load_index,
    make_rows,
)
from runner.shards.layout import blame, index_path, is_open, list_shards, sealed_path
from runner.shards.manifest import Manifest, ShardEntry, load_manifest

Kind = Literal[
    "manifest", "missing", "unlisted", "frame", "count", "hash", "index", "json", "key", "duplicate"
]


class Problem(Record, frozen=True, kw_only=True):
    """One thing that is wrong. `frame` and `offset` (of the frame, in the file) are -1 where the
    file as a whole is meant."""

    kind: Kind
    file: str
    what: str
    frame: int = -1
    offset: int = -1


class VerifyReport(Record, frozen=True, kw_only=True):
    """What was looked at, and what is wrong with it. `tail_bytes` of an open shard are no problem:
    the next writer cuts them off."""

    shards: int
    frames: int
    records: int
    raw_bytes: int
    tail_bytes: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return not self.problems


class _Shard(msgspec.Struct):
    """One shard while it is looked at."""

    number: int
    path: Path
    frames: list[Frame] = []
    records: int = 0
    raw_bytes: int = 0
    tail_bytes: int = 0
    rows: list[Any] = []
    problems: list[Problem] = []

    def add(self, kind: Kind, what: str, *, frame: int = -1, offset: int = -1) -> None:
        problem = Problem(kind=kind, file=self.path.name, what=what, frame=frame, offset=offset)
        if kind != "frame" or all(p.kind != kind or p.frame != frame for p in self.problems):
            self.problems.append(problem)


def verify(directory: Path, *, full: bool = False, keying: Keying | None = None) -> VerifyReport:
    """Verify a directory; without `keying` a full look does not see keys and index rows."""
    try:  # the manifest first: a shard that is sealed in between is then there and not yet listed
        manifest = load_manifest(directory)
        listed = list_shards(directory)
    except MachineError as exc:
        what = f"{exc.what}: {exc.found}"
        problem = Problem(kind="manifest", file=Path(exc.where).name, what=what)
        return _report([], [problem])
    shards = [_look_at(_Shard(n, path), full=full, keying=keying) for n, path in listed.items()]
    later = load_manifest(directory)
    for shard in shards:
        if is_open(shard.path):
            continue
        entry = manifest.get(shard.number) or later.get(shard.number)
        _compare(shard, entry)
        if full and keying is not None:
            _compare_index(shard, entry)
    problems = _missing(manifest, listed)
    if full and keying is not None:
        problems += list(_duplicates(shards, keying))
    return _report(shards, problems)


def _report(shards: list[_Shard], problems: list[Problem]) -> VerifyReport:
    return VerifyReport(
        shards=len(shards),
        frames=sum(len(shard.frames) for shard in shards),
        records=sum(shard.records for shard in shards),
        raw_bytes=sum(shard.raw_bytes for shard in shards),
        tail_bytes=sum(shard.tail_bytes for shard in shards),
        problems=[problem for shard in shards for problem in shard.problems] + problems,
    )


def _missing(manifest: Manifest, listed: dict[int, Path]) -> list[Problem]:
    return [
        Problem(kind="missing", file=entry.file, what="listed in the manifest, not there")
        for number, entry in manifest.items()
        if number not in listed or listed[number].name != entry.file
    ]


def _look_at(shard: _Shard, *, full: bool, keying: Keying | None) -> _Shard:
    """Read all of one shard."""
    with _open(shard) as file:
        shard.frames = _find_frames(shard, file)
        for ordinal, frame in enumerate(shard.frames):
            try:
                content = file.content(frame)
            except BadFrame as bad:
                shard.add("frame", str(bad), frame=ordinal, offset=frame.offset)
                continue
            shard.records += content.count(b"\n")
            shard.raw_bytes += len(content)
            if full:
                _look_at_lines(shard, split_lines(content), ordinal, keying)
    return shard


def _open(shard: _Shard) -> ShardFile:
    """Open its file, by its sealed name if it was sealed since it was listed."""
    try:
        return ShardFile(shard.path)
    except FileNotFoundError:
        shard.path = sealed_path(shard.path.parent, shard.number)
    with blame(shard.path, "open a shard"):
        return ShardFile(shard.path)


def _find_frames(shard: _Shard, file: ShardFile) -> list[Frame]:
    """The frames to look at, also where the file is damaged: then those before the damage."""
    try:
        if not is_open(shard.path):
            return sealed_frames(file)
        survey = survey_open(file)
    except DamagedFrame as damage:
        shard.add("frame", damage.found, frame=damage.ordinal, offset=damage.offset)
        return walk_frames(file.read, 0)[0]
    shard.tail_bytes = survey.size - survey.end
    return survey.frames


def _look_at_lines(shard: _Shard, lines: list[bytes], ordinal: int, keying: Keying | None) -> None:
    """Parse the lines of a frame; index them if they have keys."""
    offset = shard.frames[ordinal].offset
    for number, line in enumerate(lines):
        if not _is_object(line):
            shard.add("json", f"line {number} is no JSON object", frame=ordinal, offset=offset)
    if keying is None:
        return
    try:
        keys = [key_of(line, keying) for line in lines]
    except KEYING_ERRORS as exc:
        what = f"a line has no key: {type(exc).__name__}: {exc}"
        shard.add("key", what, frame=ordinal, offset=offset)
        return
    shard.rows.append(make_rows(lines, keys, shard=shard.number, frame=ordinal))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _compare(shard: _Shard, entry: ShardEntry | None) -> None:
    """Compare a sealed shard with its line in the manifest."""
    if entry is None:
        shard.add("unlisted", "sealed, but not in the manifest; the next writer will list it")
        return
    pairs = [
        ("bytes", shard.path.stat().st_size, entry.bytes),
        ("frames", len(shard.frames), entry.frames),
        ("records", shard.records, entry.records),
        ("raw bytes", shard.raw_bytes, entry.raw_bytes),
    ]
    for name, found, stated in pairs:
        if found != stated:
            shard.add("count", f"{found} {name}; the manifest says {stated}")
    with ShardFile(shard.path) as file:
        if file.sha256(file.size) != entry.sha256:
            shard.add("hash", "sha256 is not that of the manifest")


def _compare_index(shard: _Shard, entry: ShardEntry | None) -> None:
    """Compare the index file of a listed shard with what its lines say."""
    if entry is None:
        return
    path = index_path(shard.path.parent, shard.number)
    rows = load_index(path, sha256=entry.index_sha256)
    if rows is None:
        shard.add("index", f"{path.name} is missing or altered; rebuild makes it again")
    elif not np.array_equal(rows, join_rows(shard.rows)):
        shard.add("index", f"{path.name} does not tell of these lines")


def _duplicates(shards: list[_Shard], keying: Keying) -> Iterator[Problem]:
    """Each line whose key an earlier line has. Equal hashes are compared by their keys."""
    rows = join_rows([rows for shard in shards for rows in shard.rows])
    _, inverse, counts = np.unique(rows["key"], return_inverse=True, return_counts=True)
    suspects: Index = rows[counts[inverse] > 1]
    by_number = {shard.number: shard for shard in shards}
    seen: dict[str, str] = {}
    for row in suspects:
        shard, ordinal = by_number[int(row["shard"])], int(row["frame"])
        frame = shard.frames[ordinal]
        with _open(shard) as file:
            content = file.content(frame)
        key, _ = keying(content[row["offset"] : row["offset"] + row["length"]])
        place = f"{shard.path.name} frame {ordinal}"
        if key in seen:
            yield Problem(
                kind="duplicate",
                file=shard.path.name,
                what=f"key {key!r} is in {seen[key]} already",
                frame=ordinal,
                offset=frame.offset,
            )
        seen.setdefault(key, place)
