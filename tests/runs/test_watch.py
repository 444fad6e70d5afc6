import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from runner.records import Counts, RunStatus
from runner.rundir import Tokens
from runner.runs import watch
from runner.runs.watch import Watcher, line_of, picture
from tests.runs.conftest import MIXED, Spec, append, terminal, unstyled

NOW = time.time()


def running(make_run, specs=MIXED, **more):
    return make_run(specs, status=RunStatus.RUNNING, **more)


def advance(run, **changes):
    run.write(msgspec.structs.replace(run.read(), **changes))


def test_a_finished_run_is_told_of_at_once(make_run, runs):
    make_run(MIXED)
    ran = runs("watch", "latest")
    assert ran.code == 0
    assert ran.out.startswith("done: 7/8, 1 rejected, 1 failed, 275 output tokens, 28 tokens/s\n")
    assert "runner.runs show 1f6cad1c" in ran.out


def test_a_killed_run_is_told_of_at_once(make_run, runs):
    running(make_run, pid=2**22 + 1)
    out = runs("watch", "latest").out
    assert out.startswith("dead: 7/8 at last report, 1 rejected")
    assert "was killed; the same command continues it" in out


def test_the_picture_of_a_killed_run_says_how_old_its_figures_are(make_run):
    run = running(make_run, pid=2**22 + 1)
    screen = terminal(100)
    screen.print(picture(Watcher(run).look(), screen))
    assert "(balances)  at last report" in " ".join(unstyled(screen).split("\n")[3:5])


def test_speed_and_pace_are_those_between_two_run_jsons(make_run):
    run = running(make_run, heartbeat=NOW)
    watcher = Watcher(run)
    assert watcher.look().speed is None
    advance(run, heartbeat=NOW + 10, tokens=Tokens(output=1275), counts=Counts(planned=8, ok=8))
    glance = watcher.look()
    assert glance.speed == pytest.approx(100.0)
    assert glance.pace == pytest.approx(0.1)


def test_a_run_json_that_did_not_change_is_no_standstill(make_run):
    run = running(make_run, heartbeat=NOW)
    watcher = Watcher(run)
    watcher.look()
    advance(run, heartbeat=NOW + 10, tokens=Tokens(output=1275))
    watcher.look()
    assert watcher.look().speed == pytest.approx(100.0)


def test_the_time_to_go_follows_the_pace(make_run):
    run = running(make_run, heartbeat=NOW, counts=Counts(planned=100, pending=100))
    watcher = Watcher(run)
    watcher.look()
    advance(run, heartbeat=NOW + 10, counts=Counts(planned=100, ok=20, pending=80))
    assert watcher.look().eta_s == pytest.approx(40.0)


def test_speed_forgets_what_is_older_than_a_minute(make_run):
    run = running(make_run, heartbeat=NOW)
    watcher = Watcher(run)
    watcher.look()
    advance(run, heartbeat=NOW + 50, tokens=Tokens(output=1_000_275))
    watcher.look()
    advance(run, heartbeat=NOW + 100)
    assert watcher.look().speed == 0.0


def test_a_look_reads_only_what_is_new(make_run):
    run = running(make_run, [Spec(0)])
    watcher = Watcher(run)
    assert watcher.look().stats.all().samples == 1
    append(run.verdicts("online"), [Spec(1).judgement()])
    assert watcher.look().stats.all().samples == 2
    assert watcher.look().stats.all().samples == 2


def test_a_run_without_run_json_is_waited_for(make_run):
    run = make_run([], plan=False, run_json=False)
    with run.locked():
        glance = Watcher(run).look()
    assert glance.status == "running"
    assert line_of(glance) == "running: no run.json yet"


@pytest.mark.parametrize("width", [80, 100])
def test_the_picture_fits_and_tells_the_main_figures(make_run, width):
    run = running(make_run)
    screen = terminal(width)
    screen.print(picture(Watcher(run).look(), screen))
    text = unstyled(screen)
    assert max(map(len, text.splitlines())) <= width
    assert "7/8" in text
    assert "B4" in text
    assert "25.0%" in text


def test_lines_are_written_only_when_something_changed(make_run, runs, monkeypatch):
    run = running(make_run)
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            advance(run, status=RunStatus.DONE)

    monkeypatch.setattr(watch.time, "sleep", nap)
    out = runs("watch", "latest").out
    assert naps == [2.0, 2.0, 2.0]
    assert len([line for line in out.splitlines() if line.startswith("running")]) <= 2
    assert "The run is done." in out


def test_ctrl_c_ends_watching_with_0(make_run, tmp_path):
    running(make_run)
    command = [sys.executable, "-m", "runner.runs", "watch", "latest", "--interval-s", "0.1"]
    environment = os.environ | {"RAWTOK_OUTPUTS": str(tmp_path / "outputs")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("running: 7/8")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "the run goes on" in rest


def test_a_wrong_interval_exits_2(make_run, runs):
    make_run(MIXED)
    assert runs("watch", "latest", "--interval-s", "0").code == 2
