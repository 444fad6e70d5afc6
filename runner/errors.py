"""Every way in which a run can stop on purpose, and the exit code that each one maps to.

    RunnerError            an orderly stop with a message for a person
    ├── ConfigError        exit 2   the config or the command is wrong; nothing was started
    ├── MachineError       exit 1   our side: disk, port, lock, files, packages
    │   ├── ServerError    exit 1   a server that cannot be started, reached or restarted
    │   └── DamagedShard   exit 1   bytes on disk are not what was written
    ├── BadAnswers         exit 3   probe, canary, breaker or gate: the answers are why
    └── Interrupted        exit 130 SIGINT or SIGTERM; saved, the same command continues
        └── Enough         exit 0   all that was asked for this time (an estimate) is done

A message says what happened, where (config key, file, row), what was found, what is allowed and
what to do next. Fields that do not apply stay empty and are not printed. Anything that is not a
`RunnerError` is a bug of ours and keeps its traceback.
"""

from typing import ClassVar


class RunnerError(Exception):
    """An orderly stop. `str()` is the whole message, ready for a terminal."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self, what: str, *, where: str = "", found: str = "", allowed: str = "", next_step: str = ""
    ) -> None:
        self.what = what
        self.where = where
        self.found = found
        self.allowed = allowed
        self.next_step = next_step
        super().__init__(self.render())

    def render(self) -> str:
        labelled = [
            ("where", self.where),
            ("found", self.found),
            ("allowed", self.allowed),
            ("next", self.next_step),
        ]
        return "\n".join([self.what, *(f"  {name:<8}{text}" for name, text in labelled if text)])


class ConfigError(RunnerError):
    """The config or the command is wrong. Raised before anything is started or written."""

    exit_code = 2


class MachineError(RunnerError):
    """This machine is why: a full disk, a taken port, a held lock, a missing file or package."""


class ServerError(MachineError):
    """A server could not be started, reached or restarted within its budget."""


class DamagedShard(MachineError):
    """A shard holds bytes that were not written by us, before its tail. Nothing was changed."""


class BadAnswers(RunnerError):
    """The server answers, and its answers are wrong: probe, canary, breaker or gate."""

    exit_code = 3


class Interrupted(RunnerError):
    """Stopped by a signal, with everything finished so far saved."""

    exit_code = 130


class Enough(Interrupted):
    """All that was asked for this time is done, and the run is not: it can be continued."""

    exit_code = 0
