"""The folder of an export: one process at a time, whole files only, and where it was left.

    SPLIT/part-00000.jsonl ...   what trainers read: give them SPLIT/, or a file of it
    left_out.jsonl               the samples that are not there, with their reasons
    manifest.json                written last: it exists when the export is whole
    .export/                     while it is being written: state.json, unfinished files, and dealt/
                                 with the lines of shuffled files

A part is written under .export/, synced, renamed and then named in state.json, so that a killed
export goes on behind its last whole part.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from runner.errors import ConfigError, MachineError
from runner.export.manifest import Manifest, PartState
from runner.records import Record
from runner.rundir import replace_file


class State(Record, frozen=True, kw_only=True):
    """.export/state.json. `digest` is of everything that the result depends on."""

    digest: str
    parts: dict[str, PartState] = {}


class ExportFolder:
    """The paths of one export, and its state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "manifest.json"
        self.left_out = path / "left_out.jsonl"
        self.work = path / ".export"
        self.dealt = self.work / "dealt"
        self._state = self.work / "state.json"

    def read_state(self) -> State | None:
        """Where an unfinished export was left. Raises MachineError for a state that is not ours."""
        return _read(self._state, State)

    def write_state(self, state: State) -> None:
        replace_file(self._state, msgspec.json.encode(state))

    def read_manifest(self) -> Manifest | None:
        """The manifest of a whole export. Raises MachineError for one that is not ours."""
        return _read(self.manifest, Manifest)

    def write_manifest(self, manifest: Manifest) -> None:
        """The last act: after it the export is whole."""
        replace_file(self.manifest, msgspec.json.format(msgspec.json.encode(manifest), indent=2))

    def digest(self) -> str:
        """That of the export that is here, whole or not; "" for none."""
        manifest, state = self.read_manifest(), self.read_state()
        return manifest.digest if manifest else state.digest if state else ""

    def is_whole(self, part: PartState) -> bool:
        """Whether the file of a finished part is there as it was written."""
        path = self.path / part.file
        return not part.bytes or (path.is_file() and path.stat().st_size == part.bytes)

    def clear(self) -> None:
        """Take away what a former export wrote here: what its manifest or state names, no more."""
        state, manifest = self.read_state(), self.read_manifest()
        named = [part.file for part in state.parts.values()] if state else []
        for file in [*named, *(manifest.files if manifest else ())]:
            path = self.path / file
            if path.resolve().is_relative_to(self.path):
                path.unlink(missing_ok=True)
        for path in (self.manifest, self.left_out, self._state):
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and be the only process that exports into it.

        Raises:
            ConfigError: it is no folder, or holds something that is no export.
            MachineError: another process exports into it.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(
                "An export is a folder.",
                where="--out",
                found=f"{self.path}: a file",
                allowed="a folder that is new, empty, or of this very export",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.manifest.exists() and not self.work.exists() and any(self.path.iterdir()):
            raise ConfigError(
                "The folder holds something that is no export.",
                where=f"--out {self.path}",
                found=", ".join(sorted(p.name for p in self.path.iterdir())[:5]),
                allowed="a folder that is new, empty, or of this very export",
            )
        self.work.mkdir(exist_ok=True)
        descriptor = os.open(self.work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)


T = TypeVar("T")


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise MachineError(
            "This file of an export cannot be read.",
            where=str(path),
            found=str(error),
            next_step="move the folder away, or export into another one",
        ) from error


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MachineError(
            "Another process exports into this folder.",
            where=f"--out {path}",
            next_step="wait for it to end, or take another folder",
        ) from None


def sync_file(path: Path) -> tuple[int, str]:
    """Make a file durable; its size and the hash of its bytes."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return path.stat().st_size, digest
