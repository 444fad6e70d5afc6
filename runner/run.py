"""One composed config to one run: resolve it, take its directory, and work until it is done.

`python -m runner` calls `run` once, or once for each job of a sweep. The stages themselves are in
`runner.attempt`.
"""

import time

import msgspec
from rich.console import Console

from runner.attempt import Attempt
from runner.config import Config, Prepare
from runner.ending import announce_done
from runner.errors import BadAnswers
from runner.plan import is_current
from runner.preview import show_preview
from runner.records import RunStatus
from runner.resolve import Resolved
from runner.rundir import RunState
from runner.samerun import grown
from runner.sharing import Shared
from runner.tuning import run_trial


def run(config: Config, overrides: list[str], shared: Shared) -> int:
    """Do a run, continue it, or find it done; the exit code of its orderly end. `shared` is what
    it has in common with the other jobs of this process.

    Raises:
        RunnerError: before the run directory was entered (config, files, lock).
    """
    return work(Resolved(config, overrides), shared)


def work(resolved: Resolved, shared: Shared) -> int:
    """`run`, when the run directory is known."""
    config = resolved.config
    console = Console(highlight=False)
    if config.preview:
        return show_preview(resolved, console)
    if not is_current(resolved.run, config, resolved.parts):
        for part in resolved.parts.values():
            _ = part.adaptation  # rows that no adapter can read are told before a server starts
    with resolved.run.locked():
        state = read_or_begin(resolved)
        if owes_nothing(resolved, state):
            announce_done(console, resolved.run, state)
            return 0 if state.status is RunStatus.DONE else BadAnswers.exit_code
        if config.prepare is not Prepare.only and not shared.knows_flags(config.server):
            console.print("server flags: not checked, since its --help could not be had")
        attempt = Attempt(resolved, state, console, shared)
        if config.tuning.trial_s is None:
            return attempt.run()
        return run_trial(config, resolved.run, resolved.overrides, attempt.run)


def read_or_begin(resolved: Resolved) -> RunState:
    """run.json as it stands, or the state of a run that is just beginning."""
    if resolved.run.run_json.is_file():
        state = resolved.run.read()
        return msgspec.structs.replace(state, identity=grown(state.identity, resolved.identity))
    return RunState(
        run_id=resolved.run.path.name,
        status=RunStatus.RUNNING,
        created_at=time.time(),
        names=resolved.names,
        identity=resolved.identity,
    )


def owes_nothing(resolved: Resolved, state: RunState) -> bool:
    """Whether the run is finished and this config asks for nothing more of it."""
    config = resolved.config
    if state.status not in (RunStatus.DONE, RunStatus.GATE_FAILED):
        return False
    if config.prepare is Prepare.only or (config.resume.retry_failed and state.counts.failed):
        return False
    limits = {name: gate["limit"] for name, gate in state.gates.items()}
    return limits == config.gates and is_current(resolved.run, config, resolved.parts)
