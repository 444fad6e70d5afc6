"""The files of a shard directory: their names, the lock of its one writer, and safe replacement.

shard-NNNNN.jsonl.zst.part   open: being written, or left by a killed writer
shard-NNNNN.jsonl.zst        sealed: never written again
shard-NNNNN.idx.npy          index of a sealed shard, can be made again
manifest.json                what is sealed, can be made again
.writer.lock                 held while a writer lives; never deleted
"""

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from runner.errors import DamagedShard, MachineError

MANIFEST = "manifest.json"
LOCK = ".writer.lock"
_SHARD_NAME = re.compile(r"shard-(\d{5,})\.jsonl\.zst(\.part)?")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

sync_data = getattr(os, "fdatasync", os.fsync)
"""Make a file's data durable (macOS has no fdatasync)."""


def sealed_path(directory: Path, number: int) -> Path:
    return directory / f"shard-{number:05d}.jsonl.zst"


def part_path(directory: Path, number: int) -> Path:
    return directory / f"shard-{number:05d}.jsonl.zst.part"


def index_path(directory: Path, number: int) -> Path:
    return directory / f"shard-{number:05d}.idx.npy"


def shard_number(name: str) -> int:
    """The number in a shard's file name. Raises ValueError for another name."""
    match = _SHARD_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"not the name of a shard: {name!r}")
    return int(match[1])


def list_shards(directory: Path) -> dict[int, Path]:
    """Shard number -> file, in order of number; sealed and open. A missing directory is empty.

    Listed until two listings agree, because one that runs beside a rename may show both names or
    neither. Raises DamagedShard when a number really has both an open and a sealed file.
    """
    before, names = None, _shard_names(directory)
    while names != before:
        before, names = names, _shard_names(directory)
    shards: dict[int, Path] = {}
    for name in names:
        number = shard_number(name)
        if number in shards:
            raise DamagedShard(
                "one shard has an open and a sealed file",
                where=str(directory / name),
                allowed="one file for each number",
                next_step="move one of the two out of the directory; verify tells which is whole",
            )
        shards[number] = directory / name
    return dict(sorted(shards.items()))


def _shard_names(directory: Path) -> list[str]:
    with blame(directory, "list a shard directory"):
        try:
            names = [path.name for path in directory.iterdir()]
        except FileNotFoundError:
            return []
    return sorted(name for name in names if _SHARD_NAME.fullmatch(name))


def is_open(path: Path) -> bool:
    """Whether this is the name of an open shard."""
    return path.name.endswith(".part")


@contextlib.contextmanager
def writer_lock(directory: Path) -> Iterator[None]:
    """Be the only writer of the directory. Raises MachineError while another one is.

    An flock: it ends with the process, however that ends, so a stale lock cannot exist.
    """
    with blame(directory, "open the lock of a shard directory"):
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take_lock(fd, directory)
        yield
    finally:
        os.close(fd)


def _take_lock(fd: int, directory: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        raise MachineError(
            "another writer has this shard directory",
            where=str(directory),
            found=f"lock held by process {holder}",
            allowed="one writer at a time",
            next_step="wait for it to end or stop it",
        ) from exc
    with contextlib.suppress(
        OSError
    ):  # the pid is for the message above only; the disk may be full
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Put `data` at `path`, whole or not at all. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    temporary.replace(path)
    if sync:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make created and renamed names durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def blame(path: Path, action: str) -> Iterator[None]:
    """Turn an OSError inside into a MachineError that names the file and the next step."""
    try:
        yield
    except OSError as exc:
        raise disk_error(exc, path, action) from exc


def disk_error(exc: OSError, path: Path, action: str) -> MachineError:
    """What the operating system refused, as a message for a person."""
    code = errno.errorcode.get(exc.errno or 0, "?")
    remedy = (
        "make room (disk, quota or file size limit)" if exc.errno in _FULL else "look into that"
    )
    return MachineError(
        f"could not {action}",
        where=str(path),
        found=f"{code}: {exc.strerror or exc}",
        next_step=f"{remedy}; the same command then continues from what is durable",
    )
