"""Whether a run is really worked on, which verdicts count, and the settings that looking needs."""

import fcntl
import socket
import time

import msgspec

from runner.errors import ConfigError, MachineError
from runner.records import Record, RunStatus
from runner.rundir import DEAD_AFTER_S, RunDir, RunState
from runner.yamltext import YAMLError, load_yaml

DEAD = "dead"
"""Shown instead of `running` when no process works on the run any more: it was killed."""


DEFAULT_SET = "online"
"""The verdict set of a run that has no run.json to name its own."""


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


def read_state(run: RunDir) -> RunState | None:
    """run.json, or None where there is none yet. Raises MachineError for one that is no JSON."""
    return run.read() if run.run_json.exists() else None


def choose_set(run: RunDir, state: RunState | None, asked: str | None) -> str:
    """The verdict set to read: the one asked for, else the run's own, which may still be empty.

    Raises:
        ConfigError: the run has no such set.
    """
    own = state.validator_set if state else DEFAULT_SET
    if asked is None or asked == own:
        return own
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
        plain = load_yaml(run.config_yaml.read_bytes())
        return msgspec.convert(plain or {}, Settings)
    except (YAMLError, msgspec.ValidationError) as error:
        raise MachineError(
            "The config of this run cannot be read.",
            where=str(run.config_yaml),
            found=str(error),
            next_step="bring the file back; the runner wrote it when the run began",
        ) from error
