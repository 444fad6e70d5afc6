"""`sync` into a real local database: it sends what is missing, and twice changes nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runner.errors import ConfigError, MachineError
from runner.records import RunStatus
from runner.tracking import open_tracker, sync
from runner.tracking import state as states
from runner.tracking.events import Table
from runner.tracking.journal import FILE_NAME, read_from
from runner.tracking.tracker import MlflowTracker
from tests.tracking.conftest import client_of, points_of, runs_of, tell_all

Opened = Callable[..., MlflowTracker]


def rewind(run_dir: Path) -> None:
    """As if the process had been killed before it stored how far it was."""
    state = states.load(run_dir)
    assert state is not None
    states.save(run_dir, msgspec.structs.replace(state, sent_offset=0))


def everything(uri: str) -> object:
    """All that MLflow has of the only run, to be compared."""
    (run,) = runs_of(uri)
    client = client_of(uri)
    series = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
    files = sorted(item.path for item in client.list_artifacts(run.info.run_id))
    table = client.list_artifacts(run.info.run_id, "samples.json") or client.download_artifacts(
        run.info.run_id, "samples.json"
    )
    return (
        run.info.status,
        run.info.end_time,
        run.data.params,
        run.data.tags,
        {key: [(p.step, p.timestamp, str(p.value)) for p in all_] for key, all_ in series.items()},
        files,
        Path(str(table)).read_text(),
        [(item.dataset.name, item.dataset.digest) for item in run.inputs.dataset_inputs],
    )


def test_telling_everything_twice_changes_nothing(
    tracked: Opened, run_dir: Path, uri: str, said: list[str]
) -> None:
    with tracked() as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    once = everything(uri)
    rewind(run_dir)
    report = sync(run_dir, say=said.append)
    assert report.sent_events == 12
    assert everything(uri) == once
    assert sync(run_dir, say=said.append).sent_events == 0
    assert everything(uri) == once
    assert said == []


def test_what_mlflow_refuses_is_told_once_and_kept_for_sync(
    tracked: Opened, run_dir: Path, uri: str, said: list[str]
) -> None:
    with tracked() as tracker:
        tracker.artifact(run_dir / "a.txt")
        tracker.artifact(run_dir / "b.txt")
        tracker.metrics({"after": 1.0}, 1)
        tracker.finish(RunStatus.DONE)
    assert len(said) == 1
    assert "did not take one artifact" in said[0]
    run_id = runs_of(uri)[0].info.run_id
    assert points_of(uri, run_id, "after") == [(1, 1.0)]
    assert sync(run_dir, say=said.append).refused_events == 2
    (run_dir / "a.txt").write_text("now it is there")
    (run_dir / "b.txt").write_text("now it is there")
    assert sync(run_dir, say=said.append).refused_events == 0
    assert len(client_of(uri).list_artifacts(run_id)) == 2


def test_a_refused_table_does_not_undo_a_later_one(
    tracked: Opened, run_dir: Path, uri: str, said: list[str]
) -> None:
    with tracked() as tracker:
        tracker.table("t.json", {"a": ["old"]})
        tracker.table("t.json", {"a": ["new"]})
        tracker.finish(RunStatus.DONE)
    state = states.load(run_dir)
    assert state is not None
    first = next(
        start for start, _, event in read_from(run_dir / FILE_NAME) if isinstance(event, Table)
    )
    states.save(run_dir, msgspec.structs.replace(state, refused=(first,)))
    assert sync(run_dir, say=said.append).refused_events == 0
    path = client_of(uri).download_artifacts(state.mlflow_run_id, "t.json")
    assert json.loads(Path(path).read_text())["data"] == [["new"]]


def test_a_foreign_run_directory_gets_no_file_from_outside(
    tracked: Opened, run_dir: Path, uri: str, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("hush")
    with tracked(kind="none") as tracker:
        (run_dir / "link").symlink_to(tmp_path / "private")
        tracker.artifact(run_dir / "link")
        tracker.finish(RunStatus.DONE)
    assert sync(run_dir, uri=uri, say=said.append).refused_events == 1
    assert client_of(uri).list_artifacts(runs_of(uri)[0].info.run_id) == []


def test_an_untracked_run_can_be_sent_later(
    tracked: Opened, run_dir: Path, uri: str, said: list[str]
) -> None:
    with tracked(kind="none", uri="") as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    assert tracker.mlflow_run_id == ""
    with pytest.raises(ConfigError, match="not tracked"):
        sync(run_dir, say=said.append)
    report = sync(run_dir, uri=uri, say=said.append)
    (run,) = runs_of(uri)
    assert (run.info.run_id, run.info.run_name) == (report.mlflow_run_id, "a name")
    assert run.info.status == "FINISHED"


def test_another_address_gets_everything(
    tracked: Opened, run_dir: Path, uri: str, template_db: Path, tmp_path: Path
) -> None:
    with tracked() as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    shutil.copy(template_db, tmp_path / "other.db")
    other = f"sqlite:///{tmp_path}/other.db"
    sync(run_dir, uri=other, say=pytest.fail)
    assert runs_of(other)[0].data.params == runs_of(uri)[0].data.params


@pytest.mark.parametrize("how", ["the id is lost", "the run was deleted"])
def test_a_lost_id_makes_no_second_mlflow_run(
    tracked: Opened, run_dir: Path, uri: str, how: str, said: list[str]
) -> None:
    with tracked() as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    state = states.load(run_dir)
    assert state is not None
    if how == "the id is lost":
        lost = msgspec.structs.replace(state, mlflow_run_id="", experiment_id="", sent_offset=0)
        states.save(run_dir, lost)
    else:
        client_of(uri).delete_run(state.mlflow_run_id)
    sync(run_dir, uri=uri, say=said.append)
    runs = runs_of(uri)
    assert len(runs) == 1
    assert runs[0].data.params["seed"] == "1"


def test_a_live_run_is_left_to_itself(tracked: Opened, run_dir: Path, said: list[str]) -> None:
    with tracked() as tracker:
        report = sync(run_dir, say=said.append)
        tracker.finish(RunStatus.DONE)
    assert report.live
    assert report.sent_events == 0


def test_two_syncs_at_once_are_refused(tracked: Opened, run_dir: Path, said: list[str]) -> None:
    with tracked(kind="none") as tracker:
        tracker.finish(RunStatus.DONE)
    lock = states.SenderLock(run_dir)
    assert lock.take()
    with pytest.raises(MachineError, match="another sync"):
        sync(run_dir, say=said.append)
    lock.release()


def test_nothing_to_sync_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to sync"):
        sync(tmp_path, uri="http://h", say=pytest.fail)


def test_credentials_are_used_and_never_stored(run_dir: Path) -> None:
    with open_tracker(
        kind="none",
        run_dir=run_dir,
        uri="http://me:hush@127.0.0.1:1",
        experiment="e",
        run_name="n",
        say=pytest.fail,
    ) as tracker:
        tracker.finish(RunStatus.DONE)
    assert all(b"hush" not in path.read_bytes() for path in run_dir.iterdir())
    with pytest.raises(ConfigError, match="credentials"):
        sync(run_dir, say=pytest.fail)
