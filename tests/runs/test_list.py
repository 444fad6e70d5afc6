import json
import socket
import time

import pytest

from runner.records import RunStatus
from runner.runs import listing
from tests.runs.conftest import MIXED, Spec, terminal, unstyled, written

OTHER = "kimi_k25-B1-instant-recommended-aabbccdd"


def test_no_runs_says_how_to_make_one(runs):
    ran = runs("list")
    assert ran.code == 0
    assert "python -m runner" in ran.out


def test_a_run_is_a_line(make_run, runs):
    make_run(MIXED)
    header, line = runs("list").out.splitlines()
    assert header.split()[:3] == ["run", "task", "status"]
    assert line.split() == [
        *("1f6cad1c", "main", "done", "5/8", "1", "275", "28", "1", "h"),
        "tiny_reasoner/B4/thinking/greedy",
    ]


def test_newest_comes_first(make_run, runs):
    make_run([Spec(0)], created_at=time.time() - 10)
    make_run([Spec(0)], OTHER, created_at=time.time())
    assert [line.split()[0] for line in runs("list").out.splitlines()[1:]] == [
        "aabbccdd",
        "1f6cad1c",
    ]


def test_a_killed_run_is_dead(make_run, runs):
    make_run([Spec(0)], status=RunStatus.RUNNING, pid=2**22 + 1)
    assert json.loads(runs("list", "--json").out)["status"] == "dead"


def test_the_figures_of_a_killed_run_are_marked_as_old(make_run, runs):
    make_run([Spec(0)], status=RunStatus.RUNNING, pid=2**22 + 1)
    _, line, note = runs("list").out.splitlines()
    assert "*1/1" in line
    assert note == "* at its last report; `show` counts the files"


def test_a_reused_pid_does_not_make_a_killed_run_live(make_run, runs):
    # This test's own pid is alive; the run's lock is not held and its heartbeat is old.
    make_run([Spec(0)], status=RunStatus.RUNNING, heartbeat=time.time() - 3600)
    assert json.loads(runs("list", "--json").out)["status"] == "dead"


def test_a_run_that_is_locked_is_running_however_old_its_heartbeat(make_run, runs):
    run = make_run([Spec(0)], status=RunStatus.RUNNING, heartbeat=time.time() - 3600)
    with run.locked():
        assert json.loads(runs("list", "--json").out)["status"] == "running"


@pytest.mark.parametrize(("silent_s", "status"), [(1, "running"), (3600, "dead")])
def test_a_run_on_another_host_is_judged_by_its_heartbeat(make_run, runs, silent_s, status):
    heartbeat = time.time() - silent_s
    host = "not-" + socket.gethostname()
    make_run([Spec(0)], status=RunStatus.RUNNING, host=host, heartbeat=heartbeat)
    assert json.loads(runs("list", "--json").out)["status"] == status


def test_an_unreadable_run_does_not_hide_the_others(make_run, runs):
    make_run([Spec(0)])
    make_run([Spec(0)], OTHER).run_json.write_text("{")
    out = runs("list").out
    assert "1f6cad1c" in out
    assert "unreadable" in out


def test_json_has_numbers(make_run, runs):
    make_run(MIXED)
    row = json.loads(runs("list", "--json").out)
    assert (row["planned"], row["done"], row["rejected"], row["pending"]) == (8, 5, 1, 1)
    assert row["tokens_per_s"] == 27.5
    assert row["model"] == "tiny_reasoner"


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(make_run, tmp_path, width):
    names = {
        "model": "tiny_reasoner",
        "category": "B4",
        "mode": "thinking",
        "sampling": "recommended",
    }
    make_run(MIXED, status=RunStatus.STOPPED_BAD_DATA, names=names)
    screen = terminal(width)
    rows = listing.read_rows(tmp_path / "outputs")
    rows[0] |= {"planned": 88_000, "done": 88_000, "output_tokens": 228_100_000}
    listing.print_rows(rows, screen)
    assert max(map(len, unstyled(screen).splitlines())) <= width
    assert "88,000/88,000" in written(screen)
    assert "stopped_bad_data" in written(screen)


def test_outputs_may_come_from_the_environment(make_run, monkeypatch, tmp_path, capsys):
    import runner.runs

    make_run([Spec(0)])
    monkeypatch.setenv("RAWTOK_OUTPUTS", str(tmp_path / "outputs"))
    assert runner.runs.main(["list"]) == 0
    assert "1f6cad1c" in capsys.readouterr().out
