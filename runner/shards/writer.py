"""The writer of a shard directory: lines go in from any thread, frames go durably to disk.

    put() -> queue -> [writer thread: join, compress, write, sync] -> on_durable(receipts)

A line is safe when on_durable has been told its receipt, not before. `put` never waits: the caller
watches `backlog_bytes`. A frame closes when `frame_bytes` of lines have come together or the
oldest of them has waited `linger_s`. After the first failed write or sync nothing more is written
or acknowledged by this writer; what was acknowledged is on disk, and the next writer goes on.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from runner.errors import MachineError
from runner.shards.frames import new_compressor
from runner.shards.index import Keying, key_of, make_rows
from runner.shards.layout import blame, disk_error, sync_directory, writer_lock
from runner.shards.openshard import OpenShard
from runner.shards.recover import Recovery, recover


class _Queued(NamedTuple):
    line: bytes
    key: tuple[int, int]
    receipt: Any
    put_at_s: float


class ShardWriter:
    """The one writer of a shard directory, as a context manager. `put` is thread-safe.

    `keying` is called once for each line, in `put`. `shard_bytes` is the compressed size from
    which on a shard is sealed and the next begun. `on_durable` and `on_failure` are called in the
    writer's thread: `on_durable` with the receipts of one frame, in the order of `put`.
    `fsync=False` leaves durability to the operating system: for what can be made again.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keying: Keying,
        frame_bytes: int = 262_144,
        linger_s: float = 1.0,
        shard_bytes: int = 512 * 2**20,
        level: int = 3,
        on_durable: Callable[[list[Any]], None] | None = None,
        on_failure: Callable[[MachineError], None] | None = None,
        fsync: bool = True,
    ) -> None:
        self.directory = directory
        self.recovery = Recovery()
        self._keying = keying
        self._frame_bytes = frame_bytes
        self._linger_s = linger_s
        self._shard_bytes = shard_bytes
        self._compressor = new_compressor(level)
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._fsync = fsync
        self._resources = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._run, name="shard-writer", daemon=True)
        self._shard: OpenShard | None = None
        self._next_number = 0
        # All below is guarded by the lock.
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._progress = threading.Condition(lock)
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._backlog_bytes = 0
        self._put_lines = 0
        self._taken_lines = 0
        self._durable_lines = 0
        self._flush_to = 0
        self._accepting = False
        self._failure: MachineError | None = None

    def __enter__(self) -> Self:
        """Make or recover the directory and start the thread.

        Raises MachineError while another writer has it, DamagedShard for damage before the tail.
        """
        with contextlib.ExitStack() as resources:
            with blame(self.directory, "make a shard directory"):
                self.directory.mkdir(parents=True, exist_ok=True)
                if self._fsync:
                    sync_directory(self.directory.parent)
            resources.enter_context(writer_lock(self.directory))
            found = recover(self.directory, keying=self._keying, sync=self._fsync)
            self._resources = resources.pop_all()
        self._shard, self._next_number, self.recovery = found
        self._accepting = True
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """`close`; its failure outranks an exception of the block, which stays its context."""
        self.close()

    @property
    def backlog_bytes(self) -> int:
        """Raw bytes, newlines counted, that were put and are not yet durable."""
        return self._backlog_bytes

    def put(self, line: bytes, receipt: Any = None) -> None:
        """Queue one line. Never waits for the disk.

        Raises ValueError for a line with a newline in it or after `close`, the stored MachineError
        once writing has failed, and whatever `keying` raises.
        """
        if b"\n" in line:
            raise ValueError("a line must not hold a newline")
        item = _Queued(line, key_of(line, self._keying), receipt, time.monotonic())
        with self._work:
            if self._failure is not None:
                raise self._failure
            if not self._accepting:
                raise ValueError("put needs an open writer")
            gathered = self._queued_bytes
            self._queue.append(item)
            self._put_lines += 1
            self._queued_bytes += len(line) + 1
            self._backlog_bytes += len(line) + 1
            if not gathered or gathered < self._frame_bytes <= self._queued_bytes:
                self._work.notify()  # else the thread is at work, or waits for more

    def flush(self) -> None:
        """Return when all that was put so far is durable. Raises the stored MachineError."""
        with self._work:
            target = self._flush_to = self._put_lines
            self._work.notify()
            while self._failure is None and self._durable_lines < target:
                self._progress.wait()
            if self._durable_lines < target and self._failure is not None:
                raise self._failure

    def close(self) -> None:
        """Write all that was put, seal the open shard, let the directory go. Again: the same.

        Raises the stored MachineError; what was acknowledged then lies in the open shard.
        """
        with self._work:
            self._accepting = False
            self._work.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self._resources.close()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        """The writer's thread: all failures of writing are caught here, once."""
        bug = MachineError("the shard writer stopped on a bug", next_step="see its traceback")
        failure: MachineError | None = bug
        try:
            self._write_until_closed()
            failure = None
        except OSError as exc:
            failure = disk_error(exc, self._where(), "write a shard")
        except MachineError as exc:
            failure = exc
        finally:
            if failure is not None:
                self._fail(failure)

    def _write_until_closed(self) -> None:
        while batch := self._next_batch():
            self._write(batch)
        self._seal()

    def _next_batch(self) -> list[_Queued]:
        """Wait for a frame's worth of lines; [] when closed and all is written."""
        with self._work:
            while (wait_s := self._wait_s()) is None or wait_s > 0:
                self._work.wait(wait_s)
            batch: list[_Queued] = []
            raw_bytes = 0
            while self._queue and (not batch or raw_bytes < self._frame_bytes):
                batch.append(self._queue.popleft())
                raw_bytes += len(batch[-1].line) + 1
            self._queued_bytes -= raw_bytes
            self._taken_lines += len(batch)
            return batch

    def _wait_s(self) -> float | None:
        """How long the queue may still gather; 0 = take it now, None = until something comes."""
        if not self._queue:
            return None if self._accepting else 0
        if not self._accepting or self._flush_to > self._taken_lines:
            return 0
        if self._queued_bytes >= self._frame_bytes:
            return 0
        return max(0.0, self._queue[0].put_at_s + self._linger_s - time.monotonic())

    def _write(self, batch: list[_Queued]) -> None:
        lines = [item.line for item in batch]
        data = self._compressor.compress(b"\n".join([*lines, b""]))
        if self._shard is None:
            self._shard = OpenShard(self.directory, self._next_number, sync=self._fsync)
            self._next_number += 1
        keys, shard = [item.key for item in batch], self._shard
        shard.append(data, make_rows(lines, keys, shard=shard.number, frame=shard.frames))
        if self._on_durable is not None:
            self._on_durable([item.receipt for item in batch])
        with self._progress:
            self._durable_lines += len(batch)
            self._backlog_bytes -= sum(map(len, lines)) + len(lines)
            self._progress.notify_all()
        if self._shard.end >= self._shard_bytes:
            self._seal()

    def _seal(self) -> None:
        if self._shard is not None:
            self._shard.seal()
            self._shard = None

    def _fail(self, failure: MachineError) -> None:
        """Store the failure, wake who waits, tell the caller."""
        with self._progress:
            self._failure = failure
            self._progress.notify_all()
        if self._shard is not None:
            self._shard.close()
        if self._on_failure is not None:
            self._on_failure(failure)

    def _where(self) -> Path:
        return self._shard.path if self._shard is not None else self.directory
