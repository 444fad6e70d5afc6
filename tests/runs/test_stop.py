import os
import socket
import subprocess
import sys
import textwrap

import msgspec
import pytest

from runner.records import RunStatus
from runner.view.status import lock_holder, lock_is_held
from tests.runs.conftest import MIXED

WORKER = """
    import signal, sys, time
    from pathlib import Path
    import msgspec
    from runner.records import RunStatus
    from runner.rundir import RunDir

    run = RunDir(Path(sys.argv[1]))

    class Stopped(Exception):
        pass

    def stop(number, frame):
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    try:
        with run.locked():
            print("locked", flush=True)
            try:
                time.sleep(60)
            except Stopped:
                run.write(msgspec.structs.replace(run.read(), status=RunStatus.INTERRUPTED))
    finally:
        pass
"""


@pytest.fixture
def worker(make_run):
    """A running run and the process that holds its lock."""
    run = make_run(MIXED)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKER), str(run.path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    run.write(msgspec.structs.replace(run.read(), status=RunStatus.RUNNING, pid=process.pid))
    yield run, process
    process.kill()
    process.communicate()


def test_a_running_run_is_stopped_and_waited_for(worker, runs):
    run, process = worker
    ran = runs("stop", "latest")
    assert ran.code == 0
    assert f"Told process {process.pid} to stop (SIGTERM)" in ran.out
    assert f"kill {process.pid}" in ran.out
    assert "The run is interrupted: 5 of 8 samples are saved." in ran.out
    assert not lock_is_held(run)


def test_the_lock_tells_who_holds_it(worker):
    run, process = worker
    assert lock_is_held(run)
    assert lock_holder(run) == process.pid


def test_a_process_that_does_not_hold_the_lock_is_not_touched(worker, runs):
    run, process = worker
    run.write(msgspec.structs.replace(run.read(), pid=os.getpid()))
    ran = runs("stop", "latest")
    assert ran.code == 1
    assert f"lock of process {process.pid}; run.json names {os.getpid()}" in ran.err
    assert process.poll() is None


def test_a_done_run_has_nothing_to_stop(make_run, runs):
    make_run(MIXED)
    ran = runs("stop", "latest")
    assert (ran.code, ran.out) == (0, "Nothing to stop: the run is done.\n")


def test_a_killed_run_has_nothing_to_stop(make_run, runs):
    make_run(MIXED, status=RunStatus.RUNNING, pid=2**22 + 1)
    assert runs("stop", "latest").out == "Nothing to stop: the run was killed.\n"


def test_a_run_on_another_host_is_not_stopped_from_here(make_run, runs):
    host = "not-" + socket.gethostname()
    make_run(MIXED, status=RunStatus.RUNNING, host=host)
    ran = runs("stop", "latest")
    assert ran.code == 2
    assert f"on {host}: python -m runner.runs stop 1f6cad1c" in ran.err


def test_a_run_without_run_json_has_no_process(make_run, runs):
    run = make_run(MIXED, run_json=False)
    ran = runs("stop", str(run.path))
    assert ran.code == 2
    assert "never began" in ran.err


def test_looking_at_the_lock_leaves_it_free(make_run):
    run = make_run(MIXED)
    assert not lock_is_held(run)
    with run.locked():
        assert lock_is_held(run)
    assert not lock_is_held(run)
    assert lock_holder(run) == os.getpid()
