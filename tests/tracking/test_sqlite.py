"""A run told to a real local database: what is stored, and that telling twice changes nothing."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.errors import ConfigError, MachineError
from runner.records import RunStatus
from runner.tracking import open_tracker
from runner.tracking.events import TABLE_ROWS_MAX
from runner.tracking.journal import FILE_NAME, Journal, read_from
from runner.tracking.tracker import MlflowTracker
from tests.tracking.conftest import client_of, points_of, runs_of, tell_all

Opened = Callable[..., MlflowTracker]


def test_everything_arrives(
    tracked: Opened, run_dir: Path, uri: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracked() as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    (run,) = runs_of(uri)
    assert said == []
    assert run.info.run_id == tracker.mlflow_run_id
    assert (run.info.status, run.info.run_name) == ("FINISHED", "a name")
    assert run.data.params == {
        "model.id": "m",
        "seed": "1",
        "server.api_key": "***",
        "none": "null",
    }
    assert run.data.tags["host"] == "h"
    assert run.data.tags["overrides"] == "server.flags.password=*** seed=1"
    assert points_of(uri, run.info.run_id, "tokens_per_s") == [(s, s / 2) for s in range(5)]
    assert math.isnan(run.data.metrics["odd_1"])
    assert run.inputs.dataset_inputs[0].dataset.digest == "d" * 36
    client = client_of(uri)
    report = client.download_artifacts(run.info.run_id, "report/index.html")
    assert Path(report).read_text() == "<p>hello"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)  # for load_table, which uses the global one
    table = client.load_table(run.info.experiment_id, "samples.json", [run.info.run_id])
    assert table.to_dict("list") == {"id": ["a", "b"], "text": ["x?", "y"]}


def test_a_continued_run_goes_on_in_the_same_mlflow_run(
    tracked: Opened, uri: str, said: list[str]
) -> None:
    for step in (1, 2):
        with tracked() as tracker:
            tracker.params({"seed": 1})
            tracker.tags({"attempt": str(step)})
            tracker.metrics({"done": step}, step)
            tracker.finish(RunStatus.INTERRUPTED if step == 1 else RunStatus.DONE)
    (run,) = runs_of(uri)
    assert run.info.status == "FINISHED"
    assert run.data.tags["attempt"] == "2"
    assert points_of(uri, run.info.run_id, "done") == [(1, 1.0), (2, 2.0)]
    assert said == []


def test_params_are_written_once(tracked: Opened, run_dir: Path) -> None:
    for _ in range(2):
        with tracked(kind="none") as tracker:
            tracker.params({"seed": 1, "api_key": "hush"})
            tracker.finish(RunStatus.DONE)
    assert (run_dir / FILE_NAME).read_text().count('"params"') == 1


def test_a_changed_param_keeps_its_first_value_and_is_told(
    tracked: Opened, uri: str, said: list[str]
) -> None:
    for seed in (1, 2):
        with tracked() as tracker:
            tracker.params({"seed": seed})
            tracker.finish(RunStatus.DONE)
    assert runs_of(uri)[0].data.params == {"seed": "1"}
    assert ["seed changed" in text for text in said] == [True]


@pytest.mark.parametrize(
    ("status", "stored"),
    [
        (RunStatus.DONE, "FINISHED"),
        (RunStatus.GATE_FAILED, "FAILED"),
        (RunStatus.STOPPED_BAD_DATA, "FAILED"),
        (RunStatus.FAILED, "FAILED"),
        (RunStatus.INTERRUPTED, "KILLED"),
        (RunStatus.RUNNING, "RUNNING"),
    ],
)
def test_how_a_run_ended(tracked: Opened, uri: str, status: RunStatus, stored: str) -> None:
    with tracked() as tracker:
        tracker.finish(status)
    assert runs_of(uri)[0].info.status == stored


def test_leaving_without_an_end_is_failed(tracked: Opened, uri: str) -> None:
    with pytest.raises(KeyboardInterrupt), tracked():
        raise KeyboardInterrupt
    assert runs_of(uri)[0].info.status == "FAILED"


def test_more_than_one_request_can_hold(tracked: Opened, uri: str) -> None:
    with tracked() as tracker:
        tracker.params({f"p{n}": "x" * 6001 for n in range(130)})
        tracker.tags({f"t{n}": "x" for n in range(130)})
        tracker.metrics({f"m{n}": n for n in range(1200)}, 1)
        tracker.finish(RunStatus.DONE)
    (run,) = runs_of(uri)
    assert len(run.data.params) == 130
    assert len(run.data.metrics) == 1200
    assert {len(value) for value in run.data.params.values()} == {6000}


def test_a_child_is_under_its_parent(tracked: Opened, uri: str) -> None:
    with tracked(parent_run_id="abc") as tracker:
        tracker.finish(RunStatus.DONE)
    assert runs_of(uri)[0].data.tags["mlflow.parentRunId"] == "abc"


def test_a_file_outside_the_run_is_no_artifact(tracked: Opened, tmp_path: Path) -> None:
    with tracked(kind="none") as tracker, pytest.raises(ValueError, match="subpath"):
        tracker.artifact(tmp_path / "other.txt")


def test_uneven_columns_are_a_mistake_of_the_caller(tracked: Opened) -> None:
    with tracked(kind="none") as tracker, pytest.raises(ValueError, match="different lengths"):
        tracker.table("t.json", {"a": [1], "b": []})


def test_a_long_table_is_cut_and_that_is_told(
    tracked: Opened, run_dir: Path, said: list[str]
) -> None:
    with tracked(kind="none") as tracker:
        tracker.table("t.json", {"a": list(range(TABLE_ROWS_MAX + 1))})
    assert ["cut to 1000 of its 1001 rows" in text for text in said] == [True]


def test_an_unknown_kind_is_refused(run_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"tracking\.kind"):
        open_tracker(
            kind="wandb", run_dir=run_dir, uri="", experiment="e", run_name="n", say=pytest.fail
        )


def test_a_torn_line_is_mended_before_the_next_attempt_writes(
    tracked: Opened, run_dir: Path, uri: str
) -> None:
    with tracked() as tracker:
        tracker.metrics({"a": 1.0}, 1)
        tracker.finish(RunStatus.DONE)
    with (run_dir / FILE_NAME).open("ab") as file:
        file.write(b'{"event":"metrics","at":1.0,"st')
    with tracked() as tracker:
        tracker.metrics({"a": 2.0}, 2)
        tracker.finish(RunStatus.DONE)
    assert all(event is not None for _, _, event in read_from(run_dir / FILE_NAME))
    assert points_of(uri, tracker.mlflow_run_id, "a") == [(1, 1.0), (2, 2.0)]


def test_the_network_file_system_is_told_once(
    tracked: Opened, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.tracking.tracker.network_file_system", lambda path: "nfs4")
    with tracked() as tracker:
        tracker.finish(RunStatus.DONE)
    assert len(said) == 1
    assert "network file system (nfs4)" in said[0]


def test_artifacts_lie_beside_the_database(tracked: Opened, uri: str) -> None:
    with tracked() as tracker:
        tracker.finish(RunStatus.DONE)
    place = Path(uri.removeprefix("sqlite:///")).with_name("mlartifacts")
    assert client_of(uri).get_experiment_by_name("exp").artifact_location == str(place)


def test_the_terminal_stays_clean(
    tracked: Opened, run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with tracked() as tracker:
        tell_all(tracker, run_dir)
        tracker.finish(RunStatus.DONE)
    assert capfd.readouterr() == ("", "")


def test_the_writers_module_needs_no_mlflow() -> None:
    assert "mlflow" not in {
        name
        for name, module in vars(sys.modules["runner.tracking.tracker"]).items()
        if getattr(module, "__name__", "") == "mlflow"
    }


def test_a_journal_held_elsewhere_is_told(tracked: Opened, run_dir: Path) -> None:
    with Journal(run_dir), pytest.raises(MachineError, match="another process"):
        tracked(kind="none").__enter__()


def test_the_state_file_is_readable_by_scripts(tracked: Opened, run_dir: Path, uri: str) -> None:
    with tracked() as tracker:
        tracker.finish(RunStatus.DONE)
    state = json.loads((run_dir / "tracking.json").read_text())
    assert state["uri"] == uri
    assert state["mlflow_run_id"] == tracker.mlflow_run_id
    assert state["sent_offset"] == (run_dir / FILE_NAME).stat().st_size
