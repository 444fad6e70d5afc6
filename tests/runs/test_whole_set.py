"""Findings over the whole set: where they are shown, and what they cannot choose."""

import json

import msgspec
import pytest

from runner.conclusion import SET_FILE
from runner.records import SetFinding
from runner.rundir import replace_file
from tests.runs.conftest import MIXED, Spec, append


def finding(samples=2, category="B4", reason="same_output"):
    return SetFinding(
        validator="duplicates",
        reason=reason,
        severity="flag",
        category=category,
        samples=samples,
        share=samples / 4,
        examples=["B4-0-0", "B4-1-0"],
    )


def conclude(run, *found, verdict_set="online"):
    content = msgspec.json.encode(list(found))
    replace_file(run.verdicts(verdict_set) / SET_FILE, content)


@pytest.fixture
def run(make_run):
    run = make_run([Spec(0), Spec(1)])
    conclude(run, finding())
    return run


def rows_of(ran):
    return [line.split() for line in ran.out.splitlines()]


def test_show_lists_them_with_category_reason_samples_and_share(run, runs):
    ran = runs("show", "latest")
    row = ["flag", "duplicates", "same_output", "B4", "2", "50.0%", "such", "as"]
    assert [*row, "B4-0-0,", "B4-1-0"] in rows_of(ran)
    assert "Found over the whole set (no single sample carries these)" in ran.out
    assert "No check failed on a sample (set online, 2 samples)" in ran.out


def test_json_of_show_has_them(run, runs):
    facts = json.loads(runs("show", "latest", "--json").out)
    assert [(one["category"], one["reason"], one["samples"], one["share"])
            for one in facts["findings"]] == [("B4", "same_output", 2, 0.5)]  # fmt: skip
    assert facts["concluded"] is True


def test_show_tells_nothing_found_from_not_looked(make_run, runs):
    run = make_run([Spec(0)])
    assert "Not looked at as a whole set yet" in runs("show", "latest").out
    conclude(run)
    out = runs("show", "latest").out
    assert "Not looked at" not in out
    assert "No check failed (set online, 1 sample)" in out


def test_sets_are_compared_finding_by_finding(run, runs):
    append(run.verdicts("again"), [Spec(0).judgement(), Spec(1).judgement()])
    conclude(run, finding(3), finding(1, "B5"), verdict_set="again")
    rows = rows_of(runs("show", "latest", "--compare", "again"))
    assert ["duplicates", "same_output", "B4", "2", "3", "+1"] in rows
    assert ["duplicates", "same_output", "B5", "0", "1", "+1"] in rows


def test_a_set_that_was_never_looked_at_as_a_whole_has_no_nought(make_run, runs):
    run = make_run([Spec(0)])
    append(run.verdicts("again"), [Spec(0).judgement()])
    conclude(run, finding(96), verdict_set="again")
    ran = runs("show", "latest", "--compare", "again")
    assert ["duplicates", "same_output", "B4", "-", "96", "-"] in rows_of(ran)
    assert "set online was not looked at as a whole" in ran.out


@pytest.mark.parametrize("command", ["decode", "requeue"])
def test_single_samples_cannot_be_chosen_by_them(run, runs, command):
    ran = runs(command, "latest", "--reason", "same_output")
    assert ran.code == 2
    assert "found over the whole set: no single sample carries it" in ran.err
    assert "runner.runs show 1f6cad1c" in ran.err
    assert "decode 1f6cad1c --id B4-0-0 --id B4-1-0" in ran.err


def test_beside_other_choices_decode_says_it_too(make_run, runs):
    conclude(make_run(MIXED), finding())
    ran = runs("decode", "latest", "--row", "0", "--reason", "same_output")
    assert ran.code == 0
    assert "no single sample carries it" in ran.out
