"""What is read from a run directory, and which samples are chosen."""

from runner.report.attempts import Change, changes_between, tail
from runner.report.choosing import EXAMPLES, EXTREMES, SAMPLES_MAX, choose_samples
from runner.report.collect import collect
from runner.report.data import Cell
from runner.rundir import RunDir
from tests.runs.conftest import MakeRun, Spec, failing


def test_attempts_tell_when_how_and_what_changed(usual: RunDir) -> None:
    first, second = collect(usual).attempts
    assert (first.status, first.tokens, round(first.worked_s)) == ("interrupted", 90, 10)
    assert first.changes == []
    assert [(c.key, c.before, c.after) for c in second.changes] == [
        ("client.concurrency", "8", "16"),
        ("git.commit", f"{1:040x}", f"{2:040x}"),
    ]
    assert [launch.number for launch in second.launches] == [1, 2]
    assert second.overrides == "category=B4 sampling=greedy"


def test_a_part_that_one_attempt_never_got_to_is_no_change() -> None:
    before = {"client.concurrency": "8"}
    after = {"client.concurrency": "8", "client.new": "1", "server.version": "1"}
    assert list(changes_between(before, after)) == [Change(key="client.new", before="-", after="1")]


def test_every_reason_has_examples_in_every_category_that_has_it(make_run: MakeRun) -> None:
    specs = [
        Spec(row, category=f"B{row % 2 + 4}", verdicts={"v": failing("odd")}) for row in range(20)
    ]
    chosen = choose_samples(spec.judgement() for spec in specs)
    assert {cell: len(ids) for cell, ids in chosen.examples.items()} == {
        Cell("B4", "v", "odd", "flag"): EXAMPLES,
        Cell("B5", "v", "odd", "flag"): EXAMPLES,
    }


def test_the_choice_is_bounded_and_prefers_what_is_serious() -> None:
    flags = [Spec(n, verdicts={"v": failing(f"r{n}")}).judgement() for n in range(SAMPLES_MAX + 50)]
    bad = Spec(10_000, verdicts={"z": failing("worst", "reject")}).judgement()
    chosen = choose_samples([*flags, bad])
    assert len(chosen.picks) == SAMPLES_MAX
    assert bad.sample_id in [pick.sample_id for pick in chosen.picks]


def test_the_extremes_are_the_extremes() -> None:
    words = "word " * 3
    judgements = [Spec(n, output=words * (n + 1)).judgement() for n in range(40)]
    picks = choose_samples(judgements).picks
    longest = [p.sample_id for p in picks if p.why[0].startswith("longest")]
    assert longest == [f"B4-{n}-0" for n in range(39, 39 - EXTREMES, -1)]


def test_a_samples_verdicts_are_those_of_its_own_try(make_run: MakeRun) -> None:
    run = make_run([Spec(0, verdicts={"v": failing("old")}, try_=1)])
    (shown,) = collect(run).samples
    assert [finding.reason for finding in shown.findings] == ["old"]


def test_the_tail_begins_with_a_whole_line(tmp_path) -> None:
    path = tmp_path / "log"
    path.write_text("first line\nsecond line\n")
    assert tail(path, size=15) == "second line\n"
    assert tail(path) == "first line\nsecond line\n"
    assert tail(tmp_path / "none") == ""
