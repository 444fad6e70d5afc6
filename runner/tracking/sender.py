"""Sends the events of one run to MLflow, in order, from where the last sender stopped.

The same code runs in the sink's thread and in `sync`. It keeps nothing but `tracking.json`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from runner.tracking import journal
from runner.tracking import state as states
from runner.tracking.events import Artifact, Dataset, Event, Metrics, Params, Status, Table, Tags
from runner.tracking.state import TrackingState
from runner.tracking.store import GoneError, MlflowStore, RefusedError, UnreachableError

Line = tuple[int, int, Event | None]

EVENTS_A_STEP = 500
"""Lines read for one step: bounds the memory."""

REFUSED_KEPT = 1000
"""Offsets of refused events that are kept for `sync`; older ones are given up."""


def groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Neighbouring lines that one request can carry: points together, everything else alone."""
    group: list[Line] = []
    for line in lines:
        if group and not (isinstance(line[2], Metrics) and isinstance(group[-1][2], Metrics)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


class Sender:
    """The one who sends a run's events; the caller holds the run's `SenderLock`.

    `uri` is the address with its credentials. `stopped` is asked before `tracking.json` is
    written: a sender that was given up on must not write over its successor.
    """

    def __init__(
        self,
        run_dir: Path,
        uri: str,
        *,
        say: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        state = states.load(run_dir)
        if state is None:
            raise FileNotFoundError(run_dir / states.FILE_NAME)
        self.state: TrackingState = state
        self.sent_events = 0
        self._run_dir = run_dir
        self._path = run_dir / journal.FILE_NAME
        self._uri = uri
        self._say = say
        self._stopped = stopped
        self._store: MlflowStore | None = None
        self._said_left = False

    def step(self) -> bool:
        """Sends some of what is missing; False when nothing is. Raises `UnreachableError`."""
        store = self._opened()
        lines = islice(journal.read_from(self._path, self.state.sent_offset), EVENTS_A_STEP)
        any_sent = False
        for group in groups(lines):
            self._send_group(store, group)
            self._keep(sent_offset=group[-1][1])
            any_sent = True
        return any_sent

    def retry_refused(self) -> None:
        """Tries once more what was refused before. Raises `UnreachableError`."""
        for offset in self.state.refused:
            if self._stopped():
                return
            store = self._opened()
            lines = list(islice(journal.read_from(self._path, offset), 1))
            # Kept in the list while it is tried: a process killed here has not forgotten it.
            kept = self.state.refused
            for line in lines:
                if not self._replaced(line):
                    self._send_group(store, [line])
            left = self.state.refused[len(kept) :]
            self._keep(refused=(*(one for one in kept if one != offset), *left))

    def _replaced(self, line: Line) -> bool:
        """Whether a later table of the same name was sent: an older one must not undo it."""
        event = line[2]
        return isinstance(event, Table) and any(
            later.name == event.name
            for later in journal.events_of(self._path, Table, offset=line[1])
        )

    @property
    def unsent_bytes(self) -> int:
        """How much of the file was not sent."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return max(0, size - self.state.sent_offset)

    def _opened(self) -> MlflowStore:
        if self._store is None:
            store = MlflowStore(self._uri)
            try:
                self.state = store.open_run(self.state)
            except GoneError:
                self._say("tracking: the MLflow run of this run is gone; it is made again")
                self._keep(mlflow_run_id="", experiment_id="", sent_offset=0, refused=())
                self.state = store.open_run(self.state)
            self._keep()
            self._store = store
        return self._store

    def _keep(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)
        if not self._stopped():
            states.save(self._run_dir, self.state)

    def _send_group(self, store: MlflowStore, group: list[Line]) -> None:
        try:
            self._send(store, [event for _, _, event in group if event is not None])
        except RefusedError as error:
            self._check_run(store)
            if len(group) > 1:
                for line in group:
                    self._send_group(store, [line])
            else:
                self._leave(group[0], str(error))
        except UnreachableError as error:
            self._left_or_raised(store, group, error)
        else:
            self.sent_events += len(group)

    def _check_run(self, store: MlflowStore) -> None:
        try:
            store.check(self.state)
        except GoneError as error:
            self._store = None  # the next step makes the run again and sends everything
            raise UnreachableError("the MLflow run is gone") from error

    def _left_or_raised(
        self, store: MlflowStore, group: list[Line], error: UnreachableError
    ) -> None:
        # A file that can't be put anywhere now must not hold up the numbers behind it.
        if isinstance(group[0][2], Artifact | Table):
            self._check_run(store)
            self._leave(group[0], str(error))
            return
        self._store = None
        raise error

    def _leave(self, line: Line, why: str) -> None:
        if not self._said_left:
            self._said_left = True
            kind = type(line[2]).__name__.lower()
            self._say(f"tracking: MLflow did not take one {kind}; the run goes on ({why})")
        refused = (*self.state.refused, line[0])[-REFUSED_KEPT:]
        self.state = msgspec.structs.replace(self.state, refused=refused)

    def _send(self, store: MlflowStore, events: list[Event]) -> None:
        run_id = self.state.mlflow_run_id
        points = [event for event in events if isinstance(event, Metrics)]
        if points:
            store.metrics(run_id, points)
        for event in events:
            match event:
                case Params(values=values):
                    self._say_changed(store.params(run_id, values))
                case Tags(values=tags):
                    store.tags(run_id, tags)
                case Artifact():
                    store.artifact(run_id, event, run_dir=self._run_dir)
                case Table():
                    store.table(run_id, event)
                case Dataset():
                    store.dataset(run_id, event)
                case Status():
                    store.status(run_id, event)

    def _say_changed(self, keys: list[str]) -> None:
        if keys:
            self._say(
                f"tracking: {', '.join(keys[:5])} changed since this run began; MLflow can't "
                "change a param and keeps the first"
            )
