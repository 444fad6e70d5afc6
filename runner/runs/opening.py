"""From what a person typed to a run directory, and whether a process really works on it."""

import fcntl
import glob
import socket
import time
from pathlib import Path

import msgspec
import yaml  # type: ignore[import-untyped]

from runner.errors import ConfigError, MachineError
from runner.records import Record, RunStatus
from runner.rundir import DEAD_AFTER_S, RunDir, RunState
from runner.runs.command import OUTPUTS_VARIABLE, RUN_HELP

DEAD = "dead"
"""Shown instead of `running` when no process works on the run any more: it was killed."""


DEFAULT_SET = "online"
"""The verdict set of a run that has no run.json to name its own."""


_MARKS = ("run.json", "plan", ".lock")
"""What tells a run directory from another folder."""


class Retry(Record, frozen=True):
    """client.retry of the config: from how many requests on a sample is failed for good."""

    max_attempts: int = 4


class Client(Record, frozen=True):
    retry: Retry = Retry()


class Model(Record, frozen=True):
    trust_remote_code: bool = False


class Settings(Record, frozen=True):
    """The few keys of a run's config.yaml that looking at it needs."""

    client: Client = Client()
    model: Model = Model()


def open_run(name: str, outputs: Path) -> RunDir:
    """The run that `name` means: a path, also of a run that was killed before its run.json; a part
    of a run's folder name, with `TASK/` before it or not; or `latest`, the one worked on last.

    One unreadable run does not stop the others from being found.

    Raises:
        ConfigError: none or several match.
    """
    path = Path(name).expanduser()
    for place in (path, outputs / name):
        if place.is_dir() and any((place / part).exists() for part in _MARKS):
            return RunDir(place.resolve())
    runs = all_runs(outputs)
    if name == "latest" and runs:
        return max(runs, key=_heartbeat)
    task, _, part = name.rpartition("/")
    matching = [run for run in runs if part in run.path.name and task in ("", run.path.parent.name)]
    if len(matching) == 1:
        return matching[0]
    raise _no_single_run(name, outputs, matching or runs, several=bool(matching))


def all_runs(outputs: Path) -> list[RunDir]:
    """Every run under `outputs`, in the order of their names."""
    return [RunDir(path.parent) for path in sorted(outputs.glob("*/*/run.json"))]


def _heartbeat(run: RunDir) -> float:
    try:
        return run.read().heartbeat
    except MachineError:
        return 0.0


def _no_single_run(name: str, outputs: Path, there: list[RunDir], *, several: bool) -> ConfigError:
    shown = ", ".join(f"{run.path.parent.name}/{run.path.name}" for run in there[:8])
    more = f", and {len(there) - 8} more" if len(there) > 8 else ""
    return ConfigError(
        "Several runs match." if several else "No run matches.",
        where="RUN",
        found=name,
        allowed=f"{RUN_HELP}; there are: {shown or 'none'}{more}",
        next_step=f"looked under {outputs}; for another place: --outputs DIR or {OUTPUTS_VARIABLE}",
    )


def reference_of(run: RunDir) -> str:
    """The shortest name that finds a run: its digest, with the task where two tasks share it."""
    digest = short_id(run.path.name)
    twins = list(run.path.parent.parent.glob(f"*/*{glob.escape(digest)}*/run.json"))
    return digest if len(twins) <= 1 else f"{run.path.parent.name}/{digest}"


def short_id(name: str) -> str:
    """The digest that ends a run's folder name: enough to name the run in a command."""
    digest = name.rpartition("-")[2]
    return digest if len(digest) == 8 else name


def read_state(run: RunDir) -> RunState | None:
    """run.json, or None where there is none yet. Raises MachineError for one that is no JSON."""
    return run.read() if run.run_json.exists() else None


def need_state(run: RunDir) -> RunState:
    """run.json. Raises ConfigError where there is none."""
    state = read_state(run)
    if state is None:
        raise ConfigError(
            "This run has no run.json: it never began, or was killed in its first second.",
            where=str(run.path),
            next_step="start the same command again",
        )
    return state


def choose_set(run: RunDir, state: RunState | None, asked: str | None) -> str:
    """The verdict set to read: the one asked for, else the run's own.

    Raises:
        ConfigError: the run has no such set.
    """
    if asked is None:
        return state.validator_set if state else DEFAULT_SET
    if not run.verdicts(asked).is_dir():
        there = sorted(path.name for path in (run.path / "verdicts").glob("*"))
        raise ConfigError(
            "The run has no such verdict set.",
            where="--set",
            found=asked,
            allowed=", ".join(there) or "none: nothing was judged yet",
        )
    return asked


def shown_status(run: RunDir, state: RunState | None) -> str:
    """The status in one word: `dead` for one that says running and is not worked on."""
    if state is None:
        return DEAD if not lock_is_held(run) else RunStatus.RUNNING.value
    return DEAD if is_dead(run, state) else state.status.value


def is_dead(run: RunDir, state: RunState) -> bool:
    """Whether it says `running` and no process works on it.

    A pid can have been given to another process since (after a restart of the machine), so an old
    heartbeat is not believed without the lock.
    """
    if state.status is not RunStatus.RUNNING:
        return False
    stale = time.time() - state.heartbeat > DEAD_AFTER_S
    here = state.host == socket.gethostname()
    return state.dead or (here and stale and not lock_is_held(run))


def lock_is_held(run: RunDir) -> bool:
    """Whether some process works on the run. Leaves the lock as it found it."""
    try:
        with run.lock_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def lock_holder(run: RunDir) -> int:
    """The pid in the lock file, 0 if there is none. It means something only while it is held."""
    try:
        return int(run.lock_file.read_text().split()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return 0


def read_settings(run: RunDir) -> Settings:
    """What config.yaml says; defaults where there is none.

    Raises:
        MachineError: the file is there and is not the config of a run.
    """
    if not run.config_yaml.is_file():
        return Settings()
    try:
        plain = yaml.safe_load(run.config_yaml.read_bytes())
        return msgspec.convert(plain or {}, Settings)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise MachineError(
            "The config of this run cannot be read.",
            where=str(run.config_yaml),
            found=str(error),
            next_step="bring the file back; the runner wrote it when the run began",
        ) from error
