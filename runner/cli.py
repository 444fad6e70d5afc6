"""The entry: Hydra composes `conf/` and hands one config to `runner.run`; here it becomes an exit.

Hydra ends the process in its own ways (exit 1 for a mistyped option, a traceback for a missing
file, on to the next job after a failed one). This module gives every such end our exit codes and
our form of message: 0 done, 1 our side, 2 config or command, 3 the answers, 130 interrupted. A job
of a sweep never exits by itself: its outcome is kept and the worst one decides at the end.
"""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from runner import __version__
from runner.config import Config, explain, parse
from runner.errors import ConfigError, MachineError, RunnerError
from runner.plugins import register_schema
from runner.stopping import leave_at_once_on_signals

if TYPE_CHECKING:
    from runner.resolve import Resolved
    from runner.sharing import Shared

_PACKAGED = Path(__file__).resolve().parent / "_conf"
_CHECKOUT = Path(__file__).resolve().parent.parent / "conf"
CONF = str(_PACKAGED if _PACKAGED.is_dir() else _CHECKOUT)
"""The conf tree: inside the wheel when installed from one, else the checkout's. Absolute, since a
relative path works for `python -m runner` but not for the console script."""

_WORST_FIRST = (130, 1, 2, 3, 0)
_exit_codes: list[int] = []
_speed: dict[str, float] = {}
"""Of the trial that just ended."""
_tuning: set[Path] = set()
"""Folders of the searches that this process worked on."""
_closing = ExitStack()
"""What the jobs of this process share; closed when the last one has ended."""
_shared: list["Shared"] = []


def main() -> None:
    """`python -m runner` and the console script `rawtok`."""
    enter(_run)


def enter(job: Callable[[Config], int]) -> NoReturn:
    """Compose a config, or those of a sweep, do `job` with each, and end with our exit codes and
    our form of message, whatever happens. `job` gives an exit code or raises RunnerError."""
    leave_at_once_on_signals()
    if "--version" in sys.argv[1:]:
        print(f"rawtok {__version__}")  # noqa: T201 - Hydra would tell its own
        sys.exit(0)
    sys.argv[1:] = flags_first(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors instead of printing them
    register_schema()
    _exit_codes.clear()

    composed = hydra.main(version_base="1.3", config_path=CONF, config_name="config")

    def one(cfg: DictConfig) -> float | None:
        """What a sweeper searches by: a trial's speed, None for anything else."""
        _speed.clear()
        try:
            config = parse(cfg)
        except RunnerError as error:
            _note(error.exit_code, None, why=str(error))
            _exit_codes.append(complain(error))
            return None
        try:
            _exit_codes.append(job(config))
        except RunnerError as error:
            _exit_codes.append(complain(error))
        return next(iter(_speed.values()), None)

    try:
        with _closing:
            composed(one)()
    except RunnerError as error:
        _exit_codes.append(complain(error))
    except OmegaConfBaseException as error:
        _exit_codes.append(complain(explain(error)))
    except HydraException as error:
        _exit_codes.append(complain(_composition_error(error)))
    except OSError as error:
        _exit_codes.append(complain(_os_error(error)))
    if "RAWTOK_SWEEP_DIR" in os.environ:
        from runner.sweeping import end_sweep  # late: only a sweep needs it

        _exit_codes.extend(end_sweep(lambda text: sys.stderr.write(f"{text}\n")))
    for folder in _tuning:
        from runner.tuning import end_tuning  # late: only a search needs it

        _exit_codes.extend(end_tuning(folder, lambda text: sys.stderr.write(f"{text}\n")))
    sys.exit(worst(_exit_codes))


def _run(config: Config) -> int:
    """One job: a single run, or one of a sweep."""
    from runner.resolve import Resolved  # late: --help and --cfg must not wait for what a run needs
    from runner.run import work

    hydra_config = HydraConfig.get()
    resolved = None
    code, why = MachineError.exit_code, ""
    try:
        resolved = Resolved(config, list(hydra_config.overrides.task))
        code = work(resolved, _shared_by_jobs(hydra_config.mode))
        if config.tuning.trial_s is not None:
            _note_trial(resolved)
    except RunnerError as error:
        code, why = error.exit_code, str(error)
        raise
    finally:
        _note(code, resolved, why=why)
    return code


def _note_trial(resolved: "Resolved") -> None:
    from runner.tuning import folder_of, point_of  # late: only a search needs it

    point = point_of(resolved.config, resolved.run)
    if point is not None and point.tokens_per_s is not None:
        _speed["tokens_per_s"] = point.tokens_per_s
    _tuning.add(folder_of(resolved.config))


def _note(code: int, resolved: "Resolved | None", *, why: str) -> None:
    """How a job of a sweep ended, for the sweep's own end; nothing for a single run."""
    hydra_config = HydraConfig.get()
    if hydra_config.mode is RunMode.MULTIRUN:
        from runner.sweeping import note_job  # late: only a sweep needs it

        run = resolved.run if resolved is not None else None
        overrides = list(hydra_config.overrides.task)
        sweep_dir = Path(hydra_config.sweep.dir)
        note_job(sweep_dir, int(hydra_config.job.num), overrides, code, run, error=why)


def _shared_by_jobs(mode: RunMode | None) -> "Shared":
    """One for the process, made by its first job. A server is kept between jobs of a sweep only
    (a launcher that gives each job a process of its own ends it with that process)."""
    from runner.sharing import Shared  # late, as above

    if not _shared:
        _shared.append(_closing.enter_context(Shared(keep=mode is RunMode.MULTIRUN)))
        _closing.callback(_shared.clear)
    return _shared[0]


def flags_first(words: list[str]) -> list[str]:
    """`a=1 -m b=1,2` as `-m a=1 b=1,2`: argparse takes overrides on one side of a flag only."""
    flags = [word for word in words if word in ("-m", "--multirun", "-r", "--run")]
    return [*flags, *(word for word in words if word not in flags)]


def worst(exit_codes: list[int]) -> int:
    """The exit code of a sweep: 130 before 1 before 2 before 3 before 0."""
    return next((code for code in _WORST_FIRST if code in exit_codes), 0)


def complain(error: RunnerError) -> int:
    """Print the message for a person and give its exit code."""
    sys.stderr.write(f"\nerror: {error}\n")
    return error.exit_code


def _composition_error(error: HydraException) -> ConfigError:
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        return explain(cause)
    if isinstance(error, OverrideParseException):
        return ConfigError(
            "This is no override, and no option.",
            where="command line",
            found=error.override,
            allowed="KEY=VALUE; a value with commas, spaces or brackets in quotes: 'tags=[a,b]'",
            next_step="for an option of a group: GROUP=OPTION (category=B4); --help lists them",
        )
    told = str(error).partition("Config search path")[0]
    first, *rest = [line.strip() for line in told.splitlines() if line.strip()]
    return ConfigError(
        first,
        where=str(getattr(error, "override", None) or ""),
        allowed=" ".join(line for line in rest if not line.startswith("Set the environment")),
        next_step="python -m runner --help lists the groups, their options and all keys",
    )


def _os_error(error: OSError) -> MachineError:
    return MachineError(
        f"The machine refused a file operation: {error.strerror or error}.",
        where=str(error.filename or ""),
        next_step="check the path, its permissions and the free space (paths.outputs=DIR)",
    )
