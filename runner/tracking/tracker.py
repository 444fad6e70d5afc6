"""What the rest of the runner tells tracking. Each call is one line appended to `metrics.jsonl`.

Promise: no call waits for MLflow or raises because of it, and none needs it. A disk that can't be
written to is said once and costs the event, not the run.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from runner.errors import ConfigError
from runner.records import RunStatus
from runner.tracking import events, journal
from runner.tracking import state as states
from runner.tracking.address import network_file_system, normal_uri, sqlite_path
from runner.tracking.events import TABLE_ROWS_MAX, Event, cell, number, storable
from runner.tracking.journal import Journal
from runner.tracking.limits import PARAM_MAX, TAG_MAX, cut
from runner.tracking.masking import MASK, Scalar, is_secret, mask_text, mask_uri, mask_value
from runner.tracking.sink import Sink
from runner.tracking.state import SenderLock, Target

Say = Callable[[str], None]


class Tracker(Protocol):
    """Where a run's numbers and files are told. A context manager: leaving it without `finish`
    means failed."""

    @property
    def mlflow_run_id(self) -> str:
        """The id of the MLflow run, "" until it is known."""

    def params(self, values: Mapping[str, Scalar]) -> None:
        """The run's identity, flattened. Written once per run: a key told before is left out."""

    def tags(self, values: Mapping[str, str]) -> None:
        """What may differ between attempts; the last value stands."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """One point of each series; `step` is the output tokens of the run so far."""

    def artifact(self, path: Path, folder: str = "") -> None:
        """A file of the run directory, sent as it is when it is sent. `folder` is MLflow's.
        Raises ValueError for a file outside the run directory."""

    def table(self, name: str, columns: Mapping[str, list[Any]]) -> None:
        """A small table (name ends in `.json`), replacing one of the same name; rows beyond
        `TABLE_ROWS_MAX` are cut, and that is said. Raises ValueError for uneven columns."""

    def dataset(self, *, name: str, source: str, digest: str, context: str = "generated") -> None:
        """The data set that the run makes: where it lies and a digest of its manifest."""

    def finish(self, status: RunStatus) -> None:
        """How this attempt ended."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...


class NullTracker:
    """Writes the events to the run directory and sends them nowhere; `sync` can, later."""

    mlflow_run_id = ""

    def __init__(self, run_dir: Path, target: Target, *, say: Say) -> None:
        self._run_dir = run_dir
        self._target = target
        self._say = say
        self._journal = Journal(run_dir)
        self._known: dict[str, Scalar] = {}
        self._finished = False
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        self._journal.__enter__()
        self._known = journal.params_in(self._journal.path)
        self._aim()
        self._append(events.Status(at=time.time(), status=RunStatus.RUNNING))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._finished:
            self.finish(RunStatus.FAILED)
        self._journal.__exit__(kind, error, tb)

    def params(self, values: Mapping[str, Scalar]) -> None:
        masked = {key: _param(key, value) for key, value in values.items()}
        new = {key: value for key, value in masked.items() if key not in self._known}
        changed = sorted(
            key for key in masked.keys() - new.keys() if masked[key] != self._known[key]
        )
        if changed:
            self._say_once(
                "params",
                f"tracking: {', '.join(changed[:5])} changed since this run began; params keep "
                "their first value",
            )
        self._known.update(new)
        if new:
            self._append(events.Params(at=time.time(), values=new))

    def tags(self, values: Mapping[str, str]) -> None:
        masked = {
            storable(key): MASK if is_secret(key) and value else _text(value, TAG_MAX)
            for key, value in values.items()
        }
        if masked:
            self._append(events.Tags(at=time.time(), values=masked))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        numbers = {storable(key): number(value) for key, value in values.items()}
        if numbers:
            self._append(events.Metrics(at=time.time(), step=step, values=numbers))

    def artifact(self, path: Path, folder: str = "") -> None:
        inside = path.absolute().relative_to(self._run_dir.absolute())
        self._append(events.Artifact(at=time.time(), path=inside.as_posix(), folder=folder))

    def table(self, name: str, columns: Mapping[str, list[Any]]) -> None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"table {name}: columns of different lengths {sorted(lengths)}")
        rows = max(lengths, default=0)
        if rows > TABLE_ROWS_MAX:
            text = f"tracking: table {name} cut to {TABLE_ROWS_MAX} of its {rows} rows"
            self._say_once(f"table {name}", text)
        cells = {
            storable(key): [cell(value) for value in column[:TABLE_ROWS_MAX]]
            for key, column in columns.items()
        }
        self._append(events.Table(at=time.time(), name=name, columns=cells))

    def dataset(self, *, name: str, source: str, digest: str, context: str = "generated") -> None:
        self._append(
            events.Dataset(
                at=time.time(),
                name=storable(name),
                source=storable(mask_uri(source)),
                digest=digest,
                context=context,
            )
        )

    def finish(self, status: RunStatus) -> None:
        self._finished = True
        self._append(events.Status(at=time.time(), status=status))

    def _aim(self) -> None:
        lock = SenderLock(self._run_dir)
        if lock.take() and states.load(self._run_dir) is None:
            states.save(self._run_dir, states.aimed(None, self._target))
        lock.release()

    def _append(self, event: Event) -> None:
        try:
            self._journal.append(event)
        except OSError as error:
            self._say_once("disk", f"tracking: {self._journal.path} can't be written: {error}")

    def _say_once(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            self._say(text)


class MlflowTracker(NullTracker):
    """Writes the same file, and has a thread that sends it to MLflow."""

    def __init__(self, run_dir: Path, target: Target, *, flush_timeout_s: float, say: Say) -> None:
        super().__init__(run_dir, target, say=say)
        self._flush_timeout_s = flush_timeout_s
        self._sink = Sink(run_dir, target, say=say)

    @property
    def mlflow_run_id(self) -> str:  # type: ignore[override] # a plain "" where nothing is sent
        return self._sink.mlflow_run_id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            if not self._finished:
                self.finish(RunStatus.FAILED)
            if not self._sink.close(self._flush_timeout_s) and not self._sink.told_down:
                self._say(
                    f"tracking: not everything was sent within {self._flush_timeout_s:g} s; "
                    f"`python -m runner.runs sync {self._run_dir}` sends the rest"
                )
        finally:
            super().__exit__(kind, error, tb)

    def _aim(self) -> None:
        database = sqlite_path(self._target.uri)
        kind = network_file_system(database.parent) if database else ""
        if kind:
            self._say(
                f"tracking: {database} lies on a network file system ({kind}), where sqlite's "
                "locks can't be relied on; set tracking.uri to a server or paths.outputs to a "
                "local disk"
            )
        self._sink.start()

    def _append(self, event: Event) -> None:
        super()._append(event)
        self._sink.wake()


def _text(value: str, limit: int) -> str:
    return mask_text(storable(cut(value, limit)))


def _param(key: str, value: Scalar) -> Scalar:
    if isinstance(value, str) and not is_secret(key):
        return _text(value, PARAM_MAX)
    return mask_value(key, value)


def open_tracker(
    *,
    kind: str,
    run_dir: Path,
    uri: str,
    experiment: str,
    run_name: str,
    parent_run_id: str = "",
    flush_timeout_s: float = 20.0,
    say: Say,
) -> AbstractContextManager[Tracker]:
    """The tracker of a run, to be used in a `with`.

    `kind` is "none" or "mlflow"; both write `metrics.jsonl` and `tracking.json`. `uri` is used as
    it is and stored and said without credentials. On leaving, "mlflow" waits `flush_timeout_s` at
    most for what is not sent yet. Raises `ConfigError` for another kind or an impossible address,
    `MachineError` on entering when another process writes the same run.
    """
    if kind not in ("none", "mlflow"):
        raise ConfigError(
            "unknown kind of tracking", where="tracking.kind", found=kind, allowed="none, mlflow"
        )
    target = Target(
        uri=normal_uri(uri) if uri or kind == "mlflow" else "",
        experiment=experiment,
        run_name=run_name,
        parent_run_id=parent_run_id,
    )
    if kind == "none":
        return NullTracker(run_dir, target, say=say)
    return MlflowTracker(run_dir, target, flush_timeout_s=flush_timeout_s, say=say)
