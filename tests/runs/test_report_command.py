"""`report`."""

import shutil

from runner.records import RunStatus
from tests.runs.conftest import MIXED, MakeRun, RunCommand, Spec


def test_it_makes_the_page_and_says_where(make_run: MakeRun, runs: RunCommand) -> None:
    run = make_run(MIXED)
    ran = runs("report", "latest")
    assert ran.code == 0
    page = run.path / "report" / "index.html"
    assert str(page) in ran.out
    assert "5 samples shown" in ran.out
    assert "length_in_think" in page.read_text()


def test_it_makes_one_of_a_live_run(make_run: MakeRun, runs: RunCommand) -> None:
    run = make_run(MIXED, status=RunStatus.RUNNING)
    assert runs("report", "latest").code == 0
    assert "The run is at work" in (run.path / "report" / "index.html").read_text()


def test_it_makes_one_of_a_run_without_any_sample(make_run: MakeRun, runs: RunCommand) -> None:
    run = make_run([Spec(0, state="pending")])
    shutil.rmtree(run.path / "verdicts")
    ran = runs("report", "latest")
    assert ran.code == 0
    assert "The run has no judged samples yet." in ran.out
    assert "1 sample still owed." in (run.path / "report" / "index.html").read_text()


def test_an_unknown_verdict_set_is_a_wrong_command(make_run: MakeRun, runs: RunCommand) -> None:
    make_run(MIXED)
    ran = runs("report", "latest", "--set", "none")
    assert ran.code == 2
    assert "no such verdict set" in ran.err
