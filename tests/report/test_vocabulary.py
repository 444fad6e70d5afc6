"""The report tells what a draft vocabulary would cover."""

from collections import Counter

from runner.ledger import read_samples
from runner.report.vocabulary import read_vocabulary
from runner.rundir import RunDir
from tests.report.conftest import Page
from tests.report.test_page import Reader
from tests.runs.conftest import MIXED, PROFILE, MakeRun, Spec, append

IDS = PROFILE.vocab_padded


def test_output_ids_of_samples_that_are_not_rejected_are_counted(make_run: MakeRun) -> None:
    run = make_run(MIXED)
    found = read_vocabulary(run, "online", ids=IDS)
    good = [s for s in read_samples(run) if s.sample_id != "B4-3-0"]
    for category, counts in found.counts.items():
        wanted = Counter(i for s in good if s.category == category for i in s.output_ids)
        assert {i: int(n) for i, n in enumerate(counts) if n} == wanted
    assert (found.samples, found.of) == (4, 4)
    assert found.tokens == sum(len(s.output_ids) for s in good)


def test_what_is_not_judged_and_ids_that_are_none_do_not_count(make_run: MakeRun) -> None:
    run = make_run([Spec(0, changes={"output_ids": [5, IDS, -1, 5]}), Spec(1, state="unjudged")])
    (counts,) = read_vocabulary(run, "online", ids=IDS).counts.values()
    assert (counts[5], counts.sum()) == (2, 2)


def test_a_sample_that_was_asked_again_counts_once(make_run: MakeRun) -> None:
    run = make_run([Spec(0, try_=0, changes={"output_ids": [5]})])
    again = Spec(0, try_=1, changes={"output_ids": [6]})
    append(run.samples, [again.sample()])
    append(run.verdicts("online"), [again.judgement()])
    (counts,) = read_vocabulary(run, "online", ids=IDS).counts.values()
    assert (counts[5], counts[6]) == (0, 1)


def test_of_a_large_run_every_nth_frame_is_read(make_run: MakeRun) -> None:
    run = make_run([Spec(0)])
    for row in range(1, 40):  # a writer of its own each: a frame of its own each
        append(run.samples, [Spec(row).sample()])
        append(run.verdicts("online"), [Spec(row).judgement()])
    whole = read_vocabulary(run, "online", ids=IDS)
    part = read_vocabulary(run, "online", ids=IDS, most_bytes=8_000)
    assert whole.samples == whole.of == part.of == 40
    assert 3 < part.samples < 20
    assert part.tokens * 40 == whole.tokens * part.samples


def test_the_page_has_a_row_and_a_curve_for_each_category(usual: RunDir, page: Page) -> None:
    content = page(usual)
    section = content.split('<section id="vocabulary">')[1].split("</section>")[0]
    text = Reader(section).text
    for told in ("8k ids", "64k ids", "B4", "B5", "all", "100.000%", "99% by"):
        assert told in text, told
    assert section.count("<figure") == 2
    assert 'href="#vocabulary"' in content


def test_a_run_without_samples_has_none(make_run: MakeRun, page: Page) -> None:
    assert read_vocabulary(make_run([]), "online", ids=IDS).tokens == 0
    assert "No samples yet" in page(make_run([], "two-bbbbbbbb", plan=False, run_json=False))
