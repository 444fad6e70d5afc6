"""What is read from a run directory, and which samples are chosen."""

from hypothesis import given
from hypothesis import strategies as st

from runner.records import Kind
from runner.report.attempts import Change, changes_between, tail
from runner.report.choosing import EXAMPLES, EXTREMES, SAMPLES_MAX, choose_samples
from runner.report.collect import OUTPUT_CHARS, STRETCHES_MAX, collect, output_texts
from runner.report.data import Cell
from runner.rundir import RunDir
from runner.view.sample_view import Stretch
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


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 900)), max_size=300))
def test_an_output_is_bounded_whatever_it_is_made_of(parts: list[tuple[bool, int]]) -> None:
    kinds = [(Kind.SPECIAL if special else Kind.ANSWER, size) for special, size in parts]
    texts = output_texts([Stretch(kind, 0, 1, "x" * size) for kind, size in kinds])
    shown = sum(len(p.text) for text in texts for p in text.pieces if not p.gap)
    assert shown <= OUTPUT_CHARS
    assert len(texts) <= STRETCHES_MAX + 1
    if sum(size for _, size in parts) < 400:
        assert shown == sum(size for _, size in parts)


def test_the_tail_begins_with_a_whole_line(tmp_path) -> None:
    path = tmp_path / "log"
    path.write_text("first line\nsecond line\n")
    assert tail(path, size=15) == "second line\n"
    assert tail(path) == "first line\nsecond line\n"
    assert tail(tmp_path / "none") == ""
