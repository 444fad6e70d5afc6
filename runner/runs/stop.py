"""`stop`: end a running run in an orderly way."""

import argparse
import os
import signal
import socket
import time

from rich.console import Console

from runner.errors import ConfigError, MachineError
from runner.records import RunStatus
from runner.rundir import RunDir, RunState, reference_of
from runner.runs.command import Command, add_run
from runner.runs.opening import need_state, open_run
from runner.runs.screen import say
from runner.view.figures import duration, thousands
from runner.view.status import is_dead, lock_holder, lock_is_held

_POLL_S = 0.2
_REMIND_S = 30.0


def run_stop(arguments: argparse.Namespace, screen: Console) -> int:
    """The command: 0 when no process works on the run any more."""
    run = open_run(arguments.run, arguments.outputs)
    state = need_state(run)
    if state.status is not RunStatus.RUNNING or is_dead(run, state):
        how = "was killed" if state.status is RunStatus.RUNNING else f"is {state.status.value}"
        say(screen, f"Nothing to stop: the run {how}.")
        return 0
    pid = working_pid(run, state)
    _terminate(pid, run)
    say(
        screen,
        f"Told process {pid} to stop (SIGTERM). It lets the requests in flight end, up to its "
        f"drain time. To abort them at once, send it again: kill {pid}",
    )
    _wait(run, screen)
    _farewell(run, screen)
    return 0


def working_pid(run: RunDir, state: RunState) -> int:
    """The process that works on the run, on this host, sure by the lock that it holds.

    Raises:
        ConfigError: it works on another host.
        MachineError: the lock is not held by the process that run.json names.
    """
    here = socket.gethostname()
    if state.host != here:
        raise ConfigError(
            "The run works on another host.",
            where=str(run.path),
            found=state.host,
            allowed=here,
            next_step=f"on {state.host}: python -m runner.runs stop {reference_of(run)}",
        )
    holder = lock_holder(run)
    if not lock_is_held(run) or holder != state.pid:
        raise MachineError(
            "The process of this run is not known for sure, so nothing was stopped.",
            where=str(run.lock_file),
            found=f"lock of process {holder or 'none'}; run.json names {state.pid}",
            next_step="try again in a few seconds: the run may just begin or end",
        )
    return state.pid


def _terminate(pid: int, run: RunDir) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it ended just now
    except PermissionError as error:
        raise MachineError(
            "The process belongs to another user.",
            where=str(run.path),
            found=f"process {pid}",
            next_step=f"its owner can stop it: kill {pid}",
        ) from error


def _wait(run: RunDir, screen: Console) -> None:
    """Until the lock is free. Ctrl-C ends the waiting; the run still stops."""
    began_s = told_s = time.monotonic()
    while lock_is_held(run):
        time.sleep(_POLL_S)
        now_s = time.monotonic()
        if now_s - told_s >= _REMIND_S:
            told_s = now_s
            say(screen, (f"still ending, after {duration(now_s - began_s)}", "dim"))


def _farewell(run: RunDir, screen: Console) -> None:
    state = need_state(run)
    counts = state.counts
    done = counts.ok + counts.rejected
    again = " The same command continues it." if counts.pending else ""
    say(
        screen,
        f"The run is {state.status.value}: {thousands(done)} of {thousands(counts.planned)} "
        f"samples are saved.{again}",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)


COMMAND = Command(
    name="stop",
    summary="end a running run in an orderly way",
    text="""Sends SIGTERM to the process of a running run on this host and waits until it
has ended.

Requests in flight may end within shutdown.drain_s; a second SIGTERM (kill
PID) aborts them. What is finished is saved, the server is ended, and the same
command continues the run. A process that does several jobs of a sweep stops
with all of them.

  python -m runner.runs stop latest
""",
    add_arguments=add_arguments,
    run=run_stop,
)
