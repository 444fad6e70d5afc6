"""The one module that talks to MLflow: an explicit run id in every call, no global state.

Every failure of the other side becomes `UnreachableError` (try again later) or `RefusedError` (this
one thing will not be taken). Everything sent twice leaves what sending it once left.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from runner.records import RunStatus
from runner.tracking import limits, quiet
from runner.tracking.address import sqlite_path
from runner.tracking.database import make_database
from runner.tracking.events import Artifact, Dataset, Metrics, Status, Table
from runner.tracking.masking import Scalar, mask_text
from runner.tracking.state import TrackingState

KEY_TAG = "rawtok.key"
PARENT_TAG = "mlflow.parentRunId"
TABLES_TAG = "mlflow.loggedArtifacts"
CONTEXT_TAG = "mlflow.data.context"
KIND_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""MLflow's pages then open with runs, metrics and charts, not with traces and judges."""

STATUS_NAMES = {
    RunStatus.RUNNING: "RUNNING",
    RunStatus.DONE: "FINISHED",
    RunStatus.GATE_FAILED: "FAILED",
    RunStatus.STOPPED_BAD_DATA: "FAILED",
    RunStatus.FAILED: "FAILED",
    RunStatus.INTERRUPTED: "KILLED",
}

_FINAL_CODES = frozenset(
    ("BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS", "ALREADY_EXISTS")
)
_RETRIED_STATUSES = frozenset((401, 403, 408, 425, 429))


class UnreachableError(Exception):
    """MLflow does not answer, or not as itself. Worth trying again."""


class RefusedError(Exception):
    """MLflow answers, and does not take this. Trying again at once is no use."""


class GoneError(Exception):
    """The MLflow run that was stored is not there (deleted, or another database)."""


@contextmanager
def translated() -> Iterator[None]:
    """Turns what MLflow and the libraries under it raise into the two kinds above.

    Lookup and type errors are among them: a proxy that answers 200 with something else makes
    MLflow stumble over the missing fields.
    """
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code in _FINAL_CODES:
            raise RefusedError(reason(error)) from error
        raise UnreachableError(reason(error)) from error
    except ImportError as error:  # the client library of an artifact store
        raise RefusedError(reason(error)) from error
    except OSError as error:  # files, and everything of `requests`
        status = getattr(getattr(error, "response", None), "status_code", 0)
        if 400 <= status < 500 and status not in _RETRIED_STATUSES:
            raise RefusedError(reason(error)) from error
        raise UnreachableError(reason(error)) from error
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UnreachableError(f"{type(error).__name__}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """The first line of an error, short, without secrets."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return limits.cut(mask_text(lines[0]), 200)


class MlflowStore:
    """MLflow at one address. Every method raises `UnreachableError` or `RefusedError`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._tables: list[dict[str, str]] = []
        self._params: dict[str, str] = {}
        try:
            self._mlflow: Any = quiet.mlflow()
        except (ImportError, AttributeError) as error:  # the latter: half imported elsewhere
            raise UnreachableError(f"mlflow can't be imported: {error}") from error
        with translated():
            database = sqlite_path(uri)
            if database is not None:
                make_database(database)
            self._client: Any = self._mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)

    def experiment_id(self, name: str) -> str:
        """The experiment of that name, made when it is not there."""
        with translated():
            found = self._client.get_experiment_by_name(name)
            if found is not None and found.lifecycle_stage == "deleted":
                raise UnreachableError(
                    f"experiment {name!r} is deleted in MLflow: restore it, or set another "
                    "tracking.experiment"
                )
            return str(found.experiment_id) if found is not None else self._new_experiment(name)

    def _new_experiment(self, name: str) -> str:
        database = sqlite_path(self.uri)
        # A local database has no server that says where artifacts go, and MLflow's own default
        # is the working directory.
        place = None if database is None else str(database.with_name("mlartifacts"))
        try:
            made = self._client.create_experiment(name, artifact_location=place, tags=KIND_TAGS)
            return str(made)
        except self._mlflow.exceptions.MlflowException as error:
            found = self._client.get_experiment_by_name(name)  # another process was first
            if found is None:
                raise error
            return str(found.experiment_id)

    def open_run(self, state: TrackingState) -> TrackingState:
        """Finds the MLflow run of `state`, or makes it. Raises `GoneError` for a stored id that is
        not there any more."""
        experiment_id = state.experiment_id or self.experiment_id(state.experiment)
        with translated():
            run = (
                self._stored_run(state)
                if state.mlflow_run_id
                else self._marked_run(state, experiment_id)
            )
            if run is None:
                run = self._new_run(state, experiment_id)
            self._remember(run)
            if state.parent_run_id and run.data.tags.get(PARENT_TAG) != state.parent_run_id:
                self._client.set_tag(run.info.run_id, PARENT_TAG, state.parent_run_id)
        return msgspec.structs.replace(
            state, experiment_id=str(run.info.experiment_id), mlflow_run_id=run.info.run_id
        )

    def _stored_run(self, state: TrackingState) -> Any:
        try:
            run = self._client.get_run(state.mlflow_run_id)
        except self._mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                raise GoneError(state.mlflow_run_id) from error
            raise
        if run.info.lifecycle_stage == "deleted":
            raise GoneError(state.mlflow_run_id)
        return run

    def _marked_run(self, state: TrackingState, experiment_id: str) -> Any:
        found = self._client.search_runs(
            [experiment_id], filter_string=f"tags.`{KEY_TAG}` = '{state.key}'", max_results=1
        )
        return found[0] if found else None

    def _new_run(self, state: TrackingState, experiment_id: str) -> Any:
        tags = {KEY_TAG: state.key, "mlflow.source.name": "rawtok", "mlflow.source.type": "LOCAL"}
        if state.parent_run_id:
            tags[PARENT_TAG] = state.parent_run_id
        return self._client.create_run(experiment_id, run_name=state.run_name or None, tags=tags)

    def _remember(self, run: Any) -> None:
        self._params = dict(run.data.params)
        self._tables = json.loads(run.data.tags.get(TABLES_TAG, "[]"))

    def check(self, state: TrackingState) -> None:
        """Returns when MLflow answers and the run is there, else raises (`GoneError` too)."""
        with translated():
            self._stored_run(state)

    def params(self, run_id: str, values: Mapping[str, Scalar]) -> list[str]:
        """Sends the params that the run has not; returns the keys that it has with another value
        (a param can't change: the first stays)."""
        texts = {limits.name(key): limits.param_text(value) for key, value in values.items()}
        changed = [key for key, text in texts.items() if self._params.get(key, text) != text]
        new = {key: text for key, text in texts.items() if key not in self._params}
        for piece in limits.chunks(new):
            with translated():
                params = [self._mlflow.entities.Param(key, text) for key, text in piece.items()]
                self._client.log_batch(run_id, params=params)
            self._params.update(piece)
        return changed

    def tags(self, run_id: str, values: Mapping[str, str]) -> None:
        """Sets tags; the last value stands."""
        texts = {limits.name(key): limits.cut(text, limits.TAG_MAX) for key, text in values.items()}
        for piece in limits.chunks(texts):
            with translated():
                tags = [self._mlflow.entities.RunTag(key, text) for key, text in piece.items()]
                self._client.log_batch(run_id, tags=tags)

    def metrics(self, run_id: str, points: Sequence[Metrics]) -> None:
        """Sends points; MLflow keeps one of equal (key, time, step, value)."""
        entity = self._mlflow.entities.Metric
        metrics = [
            entity(limits.name(key), float(value), milliseconds(point.at), point.step)
            for point in points
            for key, value in point.values.items()
        ]
        for start in range(0, len(metrics), limits.METRICS_A_REQUEST):
            with translated():
                piece = metrics[start : start + limits.METRICS_A_REQUEST]
                self._client.log_batch(run_id, metrics=piece)

    def artifact(self, run_id: str, event: Artifact, *, run_dir: Path) -> None:
        """Uploads a file of the run directory, replacing what has its name."""
        path = (run_dir / event.path).resolve()
        if not path.is_relative_to(run_dir.resolve()):
            raise RefusedError(f"{event.path}: not a file of the run directory")
        if not path.is_file():
            raise RefusedError(f"{event.path}: no such file")
        with translated():
            self._client.log_artifact(run_id, str(path), event.folder or None)

    def table(self, run_id: str, event: Table) -> None:
        """Writes a table where MLflow's own `log_table` would, which appends: this replaces."""
        name = limits.name(event.name)
        rows = [list(row) for row in zip(*event.columns.values(), strict=True)]
        entry = {"path": name, "type": "table"}
        with translated():
            text = json.dumps({"columns": list(event.columns), "data": rows})
            self._client.log_text(run_id, text, name)
            if entry not in self._tables:
                tables = [*self._tables, entry]
                self._client.set_tag(run_id, TABLES_TAG, json.dumps(tables))
                self._tables = tables

    def text(self, run_id: str, text: str, *, name: str) -> None:
        """Writes a small file, replacing what has its name."""
        with translated():
            self._client.log_text(run_id, text, name)

    def dataset(self, run_id: str, event: Dataset) -> None:
        """Logs the generated data set as the run's input, the way MLflow's pages show it."""
        entities = self._mlflow.entities
        data = entities.Dataset(
            name=limits.cut(event.name, limits.DATASET_NAME_MAX),
            digest=event.digest[: limits.DIGEST_MAX],
            source_type="local",
            source=json.dumps({"uri": event.source}),
        )
        tags = [entities.InputTag(key=CONTEXT_TAG, value=event.context)]
        with translated():
            self._client.log_inputs(run_id, datasets=[entities.DatasetInput(data, tags)])

    def status(self, run_id: str, event: Status) -> None:
        """Sets the run's status; an ended one gets the event's time as its end."""
        name = STATUS_NAMES[event.status]
        with translated():
            if event.status is RunStatus.RUNNING:
                self._client.update_run(run_id, status=name)
            else:
                self._client.set_terminated(run_id, name, milliseconds(event.at))


def milliseconds(at: float) -> int:
    """Unix seconds as MLflow's whole milliseconds."""
    return int(at * 1000)
