"""From what a person typed to a run directory, and whether a process really works on it."""

from pathlib import Path

from runner.errors import ConfigError, MachineError
from runner.rundir import RunDir, RunState, reference_of, short_id
from runner.runs.command import OUTPUTS_VARIABLE, RUN_HELP
from runner.view.status import read_state

_MARKS = ("run.json", "plan", ".lock")
"""What tells a run directory from another folder."""


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
    place = f"looked under {outputs}; for another place: --outputs DIR or {OUTPUTS_VARIABLE}"
    one_of = f"write TASK/ID: {' or '.join(_exact_names(there)[:8])}"
    return ConfigError(
        "Several runs match." if several else "No run matches.",
        where="RUN",
        found=name,
        allowed=f"{RUN_HELP}; there are: {shown or 'none'}{more}",
        next_step=one_of if several else place,
    )


def _exact_names(runs: list[RunDir]) -> list[str]:
    """TASK/ID of each, the ID as short as it can be without meaning another one too."""
    return [f"{run.path.parent.name}/{_exact_id(run, runs)}" for run in runs]


def _exact_id(run: RunDir, runs: list[RunDir]) -> str:
    digest = short_id(run.path.name)
    twins = [r for r in runs if r.path.parent == run.path.parent and digest in r.path.name]
    return digest if len(twins) == 1 else run.path.name


def name_of(run: RunDir, outputs: Path) -> str:
    """How a command names this run: shortly, or by its path where it is not under `outputs`."""
    inside = run.path.parent.parent == outputs.resolve()
    return reference_of(run) if inside else str(run.path)


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
