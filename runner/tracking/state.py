"""`tracking.json`: where a run's events go and how far they were sent. Replaced atomically.

`sent_offset` is a byte offset in `metrics.jsonl`: everything before it was sent, apart from the
lines that start at the offsets in `refused`, which `sync` tries again. `key` marks the MLflow run
(tag `rawtok.key`), so that a run whose creation was answered by silence is found and never made
twice. Credentials in `uri` are masked: who has them passes the address again.
"""

import os
import uuid
from pathlib import Path

import msgspec

from runner.records import Record
from runner.tracking.journal import locked
from runner.tracking.masking import mask_uri

FILE_NAME = "tracking.json"
LOCK_NAME = ".tracking.lock"


class Target(Record, frozen=True, kw_only=True):
    """Where a caller wants the events to go. `uri` may hold credentials and is never stored."""

    uri: str
    experiment: str
    run_name: str
    parent_run_id: str = ""


class TrackingState(Record, frozen=True, kw_only=True):
    """The content of `tracking.json`."""

    uri: str
    experiment: str
    run_name: str
    parent_run_id: str = ""
    key: str
    experiment_id: str = ""
    mlflow_run_id: str = ""
    sent_offset: int = 0
    refused: tuple[int, ...] = ()


def load(run_dir: Path, *, name: str = FILE_NAME) -> TrackingState | None:
    """The stored state; None when there is none, or when it is damaged (it is made anew then)."""
    try:
        return msgspec.json.decode((run_dir / name).read_bytes(), type=TrackingState)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def save(run_dir: Path, state: TrackingState, *, name: str = FILE_NAME) -> None:
    """Replaces the file: a reader sees the old or the new one."""
    path = run_dir / name
    new = path.with_name(f".{name}.{os.getpid()}")
    with new.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def aimed(old: TrackingState | None, target: Target) -> TrackingState:
    """The state to go on with. Another address means that nothing was sent there yet."""
    uri = mask_uri(target.uri)
    parent = target.parent_run_id or (old.parent_run_id if old else "")
    if old is not None and old.uri == uri and old.mlflow_run_id:
        return msgspec.structs.replace(old, parent_run_id=parent)
    return TrackingState(
        uri=uri,
        experiment=target.experiment,
        run_name=target.run_name,
        parent_run_id=parent,
        key=old.key if old else uuid.uuid4().hex,
    )


class SenderLock:
    """Held by the one who sends a run's events: its own sink, or `sync`. Ends with the process."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / LOCK_NAME
        self._fd = -1

    def take(self) -> bool:
        """Whether the lock is held now. Never waits."""
        if self._fd >= 0:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        if not locked(fd, wait_s=0):
            os.close(fd)
            return False
        self._fd = fd
        return True

    def release(self) -> None:
        """Gives it back; nothing happens when it was not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
