"""`compare`."""

import json

from runner.rundir import RunDir, replace_file
from runner.view.comparing import Row, setting_rows
from tests.runs.conftest import MIXED, MakeRun, RunCommand, Spec

FIRST, SECOND = "tiny-B4-thinking-greedy-aaaaaaaa", "tiny-B4-thinking-sampled-bbbbbbbb"


def configure(run: RunDir, text: str) -> None:
    replace_file(run.config_yaml, text.encode())


def two(make_run: MakeRun) -> None:
    first, second = make_run(MIXED, FIRST), make_run([Spec(0), Spec(1)], SECOND)
    configure(first, "seed: 1\nsampling: {temperature: 0.0, top_p: 1.0}\npaths: {outputs: /a}\n")
    configure(second, "seed: 1\nsampling: {temperature: 1.0, top_p: 1.0}\npaths: {outputs: /b}\n")


def test_it_tells_what_differs_and_only_that(make_run: MakeRun, runs: RunCommand) -> None:
    two(make_run)
    ran = runs("compare", "aaaaaaaa", "bbbbbbbb", "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert told["settings"] == {"sampling.temperature": {"aaaaaaaa": "0.0", "bbbbbbbb": "1.0"}}
    assert told["results"]["samples"] == {"aaaaaaaa": "5", "bbbbbbbb": "2"}
    assert told["results"]["rejected"] == {"aaaaaaaa": "20.0%", "bbbbbbbb": "0.0%"}
    assert told["reasons"]["reject ids unassigned"] == {"aaaaaaaa": "20.0%", "bbbbbbbb": "0.0%"}
    assert set(told["categories"]) == {"B4", "B5"}


def test_a_part_that_one_has_not_is_one_row() -> None:
    shared = {"category.parts.B1.n": "1"}
    settings = [shared | {"category.parts.B4.n": "1", "category.parts.B4.count": "2"}, shared]
    assert setting_rows(settings) == [Row("category.parts.B4", ["has it", "-"])]


def test_the_table_is_for_people(make_run: MakeRun, runs: RunCommand) -> None:
    two(make_run)
    ran = runs("compare", "aaaaaaaa", "bbbbbbbb")
    assert "sampling.temperature" in ran.out
    assert "paths.outputs" not in ran.out


def test_one_run_or_the_same_twice_is_a_wrong_command(make_run: MakeRun, runs: RunCommand) -> None:
    two(make_run)
    assert runs("compare", "aaaaaaaa").code == 2
    ran = runs("compare", "aaaaaaaa", FIRST)
    assert ran.code == 2
    assert "cannot be compared with itself" in ran.err
