import pytest

from runner import tracking
from runner.errors import MachineError
from runner.tracking import SyncReport
from tests.runs.conftest import MIXED


def report(**changes):
    values = {
        "uri": "sqlite:///mlflow.db",
        "experiment_id": "1",
        "mlflow_run_id": "abc",
        "url": "",
        "sent_events": 3,
        "refused_events": 0,
        "live": False,
        "mended": False,
    }
    return SyncReport(**(values | changes))


@pytest.fixture
def synced(monkeypatch, make_run):
    """Make `tracking.sync` give a report (its own tests cover what it does); keeps its calls."""
    calls = []
    make_run(MIXED)

    def answer(given):
        def sync(run_dir, *, uri=None, say):
            calls.append((run_dir, uri))
            if isinstance(given, Exception):
                raise given
            say("looking")
            return given

        monkeypatch.setattr(tracking, "sync", sync)
        return calls

    return answer


def test_what_was_sent_is_told(synced, runs):
    synced(report())
    ran = runs("sync", "latest")
    assert ran.code == 0
    assert ran.out == "looking\nSent 3 events to sqlite:///mlflow.db\nMLflow run abc\n"


def test_nothing_missing_is_told(synced, runs):
    synced(report(sent_events=0))
    assert "Nothing was missing at sqlite:///mlflow.db" in runs("sync", "latest").out


def test_another_address_is_passed_on(synced, runs):
    calls = synced(report())
    runs("sync", "latest", "--uri", "http://127.0.0.1:5000")
    assert calls[0][1] == "http://127.0.0.1:5000"


def test_a_live_run_sends_by_itself(synced, runs):
    synced(report(live=True))
    assert "sends by itself" in runs("sync", "latest").out


def test_a_mended_status_and_refused_events_are_told(synced, runs):
    synced(report(mended=True, refused_events=2))
    out = runs("sync", "latest").out
    assert "shows it as interrupted" in out
    assert "2 refused" in out


def test_an_unreachable_mlflow_exits_1(synced, runs):
    synced(MachineError("MLflow is not reachable.", where="http://127.0.0.1:1"))
    assert runs("sync", "latest").code == 1


def test_a_run_without_metrics_has_nothing_to_sync(make_run, runs):
    make_run(MIXED)
    ran = runs("sync", "latest")
    assert ran.code == 2
    assert "metrics" in ran.err
