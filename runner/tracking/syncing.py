"""Sends what is missing of a run that is over (or was killed): the sink's loop run to its end."""

import time
from collections.abc import Callable
from pathlib import Path

from runner.errors import ConfigError, MachineError
from runner.records import Record, RunStatus
from runner.tracking import journal
from runner.tracking import state as states
from runner.tracking.address import normal_uri, run_url
from runner.tracking.events import Status
from runner.tracking.journal import Journal
from runner.tracking.masking import MASK, mask_uri
from runner.tracking.sender import Sender
from runner.tracking.state import SenderLock, Target
from runner.tracking.store import UnreachableError

Say = Callable[[str], None]

TRIES = 3
PAUSE_S = 1.0
"""Between tries; the last one's failure is told."""


class SyncReport(Record, frozen=True, kw_only=True):
    """What a `sync` did. `url` is "" for a local database; `uri` has no credentials."""

    uri: str
    experiment_id: str
    mlflow_run_id: str
    url: str
    sent_events: int
    refused_events: int
    live: bool
    """A process works on the run and sends by itself; nothing was done."""

    mended: bool
    """The run's process was killed; its status was set to interrupted."""


def sync(run_dir: Path, *, uri: str | None = None, say: Say) -> SyncReport:
    """Sends to MLflow what it has not of `run_dir`. Doing it twice changes nothing.

    `uri` is by default where the run was tracked; another one gets everything. Raises `ConfigError`
    when there is nothing to sync or no address, `MachineError` when MLflow can't be reached or
    another `sync` of this run is at work.
    """
    target = _target(run_dir, uri)
    lock = SenderLock(run_dir)
    mended = _mend(run_dir)
    if mended is None:
        return _report(run_dir, target.uri, live=True)
    if not lock.take():
        raise MachineError(
            "another sync of this run is at work",
            where=str(run_dir),
            next_step="wait for it to end",
        )
    try:
        states.save(run_dir, states.aimed(states.load(run_dir), target))
        sender = Sender(run_dir, target.uri, say=say)
        _send_all(sender, run_dir, target.uri)
    finally:
        lock.release()
    return _report(run_dir, target.uri, mended=mended, sent_events=sender.sent_events)


def _target(run_dir: Path, uri: str | None) -> Target:
    if not (run_dir / journal.FILE_NAME).exists():
        raise ConfigError(
            "nothing to sync: no metrics were written here",
            where=str(run_dir),
            allowed=f"a run directory with {journal.FILE_NAME}",
        )
    old = states.load(run_dir)
    address = uri or (old.uri if old else "")
    if not address or (uri is None and MASK in address):
        raise ConfigError(
            "where to send to is not known: "
            + ("its credentials are not stored" if address else "this run was not tracked"),
            where=str(run_dir / states.FILE_NAME),
            found=repr(address),
            next_step="name the address",
        )
    return Target(
        uri=normal_uri(address),
        experiment=old.experiment if old else "rawtok",
        run_name=old.run_name if old else run_dir.name,
    )


def _mend(run_dir: Path) -> bool | None:
    """Whether a killed run got its end; None when the run is live, which its lock tells."""
    writer = Journal(run_dir, wait_s=0)
    try:
        with writer:
            last = journal.last_status(writer.path)
            killed = last is not None and last.status is RunStatus.RUNNING
            if killed:
                writer.append(Status(at=time.time(), status=RunStatus.INTERRUPTED))
            return killed
    except MachineError:
        return None


def _send_all(sender: Sender, run_dir: Path, uri: str) -> None:
    fails = 0
    retried = False
    while True:
        try:
            if not retried:
                sender.retry_refused()
                retried = True
            if not sender.step():
                return
        except (UnreachableError, OSError) as error:
            fails += 1
            if fails == TRIES:
                raise MachineError(
                    "the tracking address does not answer",
                    where=mask_uri(uri),
                    found=str(error),
                    next_step=f"see that it runs, then sync {run_dir} again; nothing is lost",
                ) from error
            time.sleep(PAUSE_S)
        else:
            fails = 0


def _report(
    run_dir: Path, uri: str, *, live: bool = False, mended: bool = False, sent_events: int = 0
) -> SyncReport:
    state = states.load(run_dir)
    experiment_id = state.experiment_id if state else ""
    mlflow_run_id = state.mlflow_run_id if state else ""
    return SyncReport(
        uri=mask_uri(uri),
        experiment_id=experiment_id,
        mlflow_run_id=mlflow_run_id,
        url=run_url(uri, experiment_id=experiment_id, mlflow_run_id=mlflow_run_id),
        sent_events=sent_events,
        refused_events=len(state.refused) if state else 0,
        live=live,
        mended=mended,
    )
