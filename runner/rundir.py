"""A run on disk: where each file lies, the one lock, and `run.json`.

    run.json            the one file a script needs; replaced atomically, so never half written
    config.yaml         the resolved config            provenance.json  git, versions, hashes
    plan/ prompts/      what is owed, and each prompt once
    tokenizer/          tokenizer files, template, profile.json: decoding needs nothing else
    samples/            the shards                     verdicts/<set>/  beside them
    failures.jsonl      every request that failed for good, with its reason
    metrics.jsonl       everything that tracking is told, in order
    attempts/0001/      log, overrides, launches/01/server.log
    .lock               held by the one process that works on the run

The directory is self-contained: judging, decoding and exporting read nothing else.
"""

import fcntl
import glob
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from runner.errors import ConfigError, MachineError
from runner.records import Counts, Record, RunStatus
from runner.shards.layout import sync_directory

RUN_SCHEMA = 1
HEARTBEAT_S = 5.0
"""How often a live run rewrites run.json."""
NETWORK_FILESYSTEMS = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs"),
    *("9p", "afs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.ceph-fuse"),
    "fuse.glusterfs",
)
"""Kinds that several hosts may have mounted at once."""
DEAD_AFTER_S = 60.0
"""A running run on another host whose heartbeat is older than this is shown as dead."""


class Tokens(Record, frozen=True, kw_only=True):
    """Token totals over the current samples."""

    prompt: int = 0
    output: int = 0


class RunState(Record, frozen=True, kw_only=True):
    """The content of run.json.

    `generate_s` is the time spent sending the bulk (probe and canary excluded) and
    `generate_tokens` the output tokens that came in it; their ratio is the run's tokens/s.
    `performance` is the last attempt's runner.performance.Performance.
    `unplanned` samples lie in the shards and are not planned any more (the plan was made smaller).
    `identity` is the flat identity, `world` the hashes that an attempt checks before it goes on.
    """

    schema: int = RUN_SCHEMA
    run_id: str
    status: RunStatus
    reason: str = ""
    counts: Counts = Counts()
    unplanned: int = 0
    tokens: Tokens = Tokens()
    generate_s: float = 0.0
    generate_tokens: int = 0
    performance: dict[str, Any] = {}
    gates: dict[str, Any] = {}
    attempts: int = 0
    launches: int = 0
    host: str = ""
    pid: int = 0
    heartbeat: float = 0.0
    created_at: float = 0.0
    mlflow_run_id: str = ""
    validator_set: str = "online"
    names: dict[str, str] = {}
    identity: dict[str, Any] = {}
    world: dict[str, str] = {}

    @property
    def tokens_per_s(self) -> float | None:
        """The tokens/s of a run, wherever it is told: output tokens per second while the bulk was
        sent, warm-up and tail included; None before there was any."""
        whole = self.generate_s > 0 and self.generate_tokens > 0
        return self.generate_tokens / self.generate_s if whole else None

    @property
    def dead(self) -> bool:
        """Says `running`, but its process is gone (seen by pid here, by heartbeat elsewhere)."""
        if self.status is not RunStatus.RUNNING:
            return False
        if self.host == socket.gethostname():
            return not _process_exists(self.pid)
        return time.time() - self.heartbeat > DEAD_AFTER_S


class RunDir:
    """The paths of one run directory. Creating the object touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_json = path / "run.json"
        self.config_yaml = path / "config.yaml"
        self.provenance_json = path / "provenance.json"
        self.plan = path / "plan"
        self.prompts = path / "prompts"
        self.tokenizer = path / "tokenizer"
        self.profile_json = path / "tokenizer" / "profile.json"
        self.samples = path / "samples"
        self.superseded = path / "samples" / "superseded.jsonl"
        self.failures = path / "failures.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.attempts = path / "attempts"
        self.lock_file = path / ".lock"

    def verdicts(self, name: str) -> Path:
        """The directory of one verdict set."""
        return self.path / "verdicts" / name

    def attempt(self, number: int) -> Path:
        """The directory of one attempt, counted from 1."""
        return self.attempts / f"{number:04d}"

    def read(self) -> RunState:
        """run.json as it stands.

        Raises:
            MachineError: it cannot be read or is not ours.
        """
        try:
            return msgspec.json.decode(self.run_json.read_bytes(), type=RunState)
        except (OSError, msgspec.DecodeError) as error:
            raise MachineError(
                "This is not a readable run directory.",
                where=str(self.run_json),
                found=str(error),
                next_step="python -m runner.runs list shows the runs there are",
            ) from error

    def write(self, state: RunState) -> None:
        """Replace run.json atomically."""
        replace_file(self.run_json, msgspec.json.format(msgspec.json.encode(state), indent=2))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; the lock goes with the process, however it ends.

        Raises:
            MachineError: another process works on the run, or the file system has no locks.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _take(descriptor, self)
            self._check_other_hosts()
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
            yield
        finally:
            os.close(descriptor)

    def _check_other_hosts(self) -> None:
        """A lock on a network file system may be good for one host only, so there the heartbeat of
        another host counts too."""
        kind = filesystem_kind(self.path)
        if kind not in NETWORK_FILESYSTEMS or not self.run_json.is_file():
            return
        state = self.read()
        age_s = time.time() - state.heartbeat
        if (
            state.status is RunStatus.RUNNING
            and state.host != socket.gethostname()
            and age_s < DEAD_AFTER_S
        ):
            raise MachineError(
                "A process on another host is working on this run.",
                where=str(self.path),
                found=f"process {state.pid} on {state.host} was alive {age_s:.0f} s ago; {kind} may"
                " not lock across hosts",
                next_step=f"stop it there; if it is dead already, wait {DEAD_AFTER_S:.0f} s",
            )


def _take(descriptor: int, rundir: RunDir) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 200).decode(errors="replace").strip() or "unknown"
        raise MachineError(
            "Another process is working on this run.",
            where=str(rundir.path),
            found=f"held by process {holder}",
            next_step=f"wait for it, watch it (python -m runner.runs watch {reference_of(rundir)}) "
            f"or stop it (python -m runner.runs stop {reference_of(rundir)})",
        ) from None
    except OSError as error:
        raise MachineError(
            f"The file system cannot lock a file: {error.strerror}.",
            where=str(rundir.lock_file),
            next_step="put paths.outputs on a file system with locks (a local disk, NFSv4)",
        ) from error


def filesystem_kind(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system that `path` is on, as mount tells it; "" where that is not told."""
    best, kind = -1, ""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        _, at, found, *_ = line.split(" ")
        at = at.replace("\\040", " ")  # how mount writes a space
        if path.is_relative_to(at) and len(at) >= best:
            best, kind = len(at), found
    return kind


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader (or a crash) sees the old content or the new, never a mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # on a full disk every byte is missed
        partial.unlink(missing_ok=True)
        raise
    partial.replace(path)


def append_line(path: Path, record: msgspec.Struct) -> None:
    """Append one JSON line and sync it; a torn last line of a crash is ended first."""
    append_lines(path, [record])


def append_lines(path: Path, records: Sequence[msgspec.Struct]) -> None:
    """`append_line` of several, synced once. A crash may leave only the first of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        new = file.tell() == 0
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync_directory(path.parent)


def find_runs(outputs: Path) -> list[RunDir]:
    """All run directories under `outputs`, newest first (by the time they were made)."""
    found = [RunDir(path.parent) for path in outputs.glob("*/*/run.json")]
    return sorted(found, key=lambda run: (run.read().created_at, run.path.name), reverse=True)


def find_run(name: str, outputs: Path) -> RunDir:
    """A run by path, by id (or its beginning), or `latest` (worked on last).

    Raises:
        ConfigError: none or several match.
    """
    as_path = Path(name).expanduser()
    if (as_path / "run.json").is_file():
        return RunDir(as_path.resolve())
    runs = find_runs(outputs)
    if name == "latest" and runs:
        return max(runs, key=lambda run: run.read().heartbeat)
    matching = [run for run in runs if run.path.name.startswith(name) or name in run.path.name]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(run.path.name for run in (matching or runs)[:8]) or "none"
    raise ConfigError(
        "No run matches." if not matching else "Several runs match.",
        where="RUN",
        found=name,
        allowed=f"a run directory, an id, a part of one, or `latest`; there are: {shown}",
        next_step=f"looked under {outputs}; set RAWTOK_OUTPUTS or --outputs for another place",
    )


def short_id(name: str) -> str:
    """The digest that ends a run's folder name: enough to name the run in a command."""
    digest = name.rpartition("-")[2]
    return digest if len(digest) == 8 else name


def reference_of(run: RunDir) -> str:
    """The shortest name that finds a run: its digest, with the task where two tasks share it."""
    digest = short_id(run.path.name)
    twins = list(run.path.parent.parent.glob(f"*/*{glob.escape(digest)}*/run.json"))
    return digest if len(twins) <= 1 else f"{run.path.parent.name}/{digest}"
