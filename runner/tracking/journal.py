"""`metrics.jsonl`: the queue between the run and MLflow, and the record when there is no MLflow.

Promise: an event whose `append` returned survives `kill -9` of the process (the kernel has it). A
torn last line, from a process killed while it wrote, is mended by the next `Journal` before it
appends: completed when all of it is there but its newline, cut off otherwise. One writer at a time:
the lock (flock, on the file itself) ends with the process, so that a held lock means a live run.
Not promised: survival of a power cut.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from runner.errors import MachineError
from runner.tracking.events import Event, Params, Status, Table, decode, encode
from runner.tracking.masking import Scalar

FILE_NAME = "metrics.jsonl"

Kind = TypeVar("Kind", Params, Status, Table)


class Journal:
    """Appends events. A context manager; `append` may be called from any thread.

    Raises `MachineError` when another live process holds the file for longer than `wait_s`.
    """

    def __init__(self, run_dir: Path, *, wait_s: float = 2.0) -> None:
        self.path = run_dir / FILE_NAME
        self._wait_s = wait_s
        self._fd = -1
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if not locked(self._fd, wait_s=self._wait_s):
            os.close(self._fd)
            raise MachineError(
                "another process is writing this run's metrics",
                where=str(self.path),
                next_step="wait for that process to end, or stop it",
            )
        mend_tail(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with self._lock:
            os.close(self._fd)
            self._fd = -1

    def append(self, event: Event) -> None:
        """Writes one line with one write. Raises OSError, leaving no torn line, when it cannot."""
        line = encode(event)
        with self._lock:
            end = os.fstat(self._fd).st_size
            try:
                write_all(self._fd, line)
            except OSError:
                os.ftruncate(self._fd, end)
                raise


def write_all(fd: int, data: bytes) -> None:
    """`os.write` until everything is written: the kernel may take less at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def locked(fd: int, *, wait_s: float) -> bool:
    """Whether an exclusive flock was taken within `wait_s`."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        except OSError:
            return True  # a file system without locks: better unguarded than no run at all
        else:
            return True


def mend_tail(fd: int, *, block: int = 65536) -> None:
    """Makes the file end with a whole line (or be empty)."""
    size = os.fstat(fd).st_size
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(block, start)
        start -= step
        tail = os.pread(fd, step, start) + tail
    torn = tail[tail.rfind(b"\n") + 1 :]
    if torn and decode(torn) is not None:
        write_all(fd, b"\n")
    elif torn:
        os.ftruncate(fd, size - len(torn))


def read_from(path: Path, offset: int = 0) -> Iterator[tuple[int, int, Event | None]]:
    """Whole lines from `offset` on as (start, end, event); the event is None for a damaged line.

    A torn last line is not yielded. Nothing at all for a file that does not exist.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        start = offset
        for line in file:
            if not line.endswith(b"\n"):
                return
            end = start + len(line)
            yield start, end, decode(line)
            start = end


def events_of(path: Path, kind: type[Kind], *, offset: int = 0) -> Iterator[Kind]:
    """The whole events of one kind from `offset` on; only their lines are parsed."""
    needle = f'"event":"{kind.__name__.lower()}"'.encode()
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if needle in line and isinstance(event := decode(line), kind):
                yield event


def params_in(path: Path) -> dict[str, Scalar]:
    """All params that the file tells, the first value of each key."""
    values: dict[str, Scalar] = {}
    for event in events_of(path, Params):
        values = {**event.values, **values}
    return values


def last_status(path: Path) -> Status | None:
    """The last status event of the file."""
    last = None
    for last in events_of(path, Status):  # noqa: B007 - the last one is what is asked for
        pass
    return last
