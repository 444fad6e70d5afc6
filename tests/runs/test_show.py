import json

import pytest

from runner.records import Counts, RunStatus
from runner.runs.show import accounting_line
from runner.view.facts import read_facts
from tests.runs.conftest import MIXED, Spec, append, failing, failure_of


@pytest.fixture
def run(make_run):
    return make_run(MIXED)


def test_the_accounting_line_balances(run, runs):
    line = "8 planned = 4 ok + 1 rejected + 1 failed + 1 skipped + 1 pending  (balances)"
    assert line in runs("show", "latest").out


def test_an_accounting_that_does_not_balance_says_so():
    assert "DOES NOT BALANCE" in accounting_line(Counts(planned=3, ok=1)).plain


def test_finish_tells_the_share_that_was_cut(run, runs):
    assert (
        "4 stopped by themselves, 1 cut by length (20.0% cut short)" in runs("show", "latest").out
    )


def test_verdicts_are_counted_by_validator_and_reason(run, runs):
    rows = [line.split() for line in runs("show", "latest").out.splitlines()]
    assert ["reject", "ids", "unassigned", "1", "20.0%"] in rows
    assert ["flag", "finish", "length_in_think", "1", "20.0%"] in rows


def test_failures_and_skips_are_counted_by_reason(run, runs):
    rows = [line.split() for line in runs("show", "latest").out.splitlines()]
    assert ["unparsable", "1", "12.5%"] in rows
    assert ["over_context", "1", "12.5%"] in rows


def test_lengths_are_given_by_category_and_over_all(run):
    facts = read_facts(run)
    assert facts.categories["B4"].lengths["reasoning"].max == 241
    assert facts.categories["B5"].lengths["reasoning"].max == 3
    assert facts.whole.lengths["reasoning"].max == 241
    assert facts.whole.lengths["total"].total == 275 + 75


def test_one_category_is_not_summed_up_again(make_run, runs):
    make_run([Spec(0)])
    assert "all (1)" not in runs("show", "latest").out


def test_json_is_one_document(run, runs):
    facts = json.loads(runs("show", "latest", "--json").out)
    assert facts["counts"]["rejected"] == 1
    assert facts["balanced"] is True
    assert facts["state"]["run_id"] == run.path.name


def test_the_shards_count_and_not_run_json(make_run):
    run = make_run(
        MIXED, counts=Counts(planned=8, pending=8), status=RunStatus.RUNNING, pid=2**22 + 1
    )
    assert read_facts(run).counts.ok == 4


def test_a_killed_run_is_explained(make_run, runs):
    make_run(MIXED, status=RunStatus.RUNNING, pid=2**22 + 1)
    out = runs("show", "latest").out
    assert "dead  killed; the same command continues it" in out
    assert "`python -m runner ...` command again" in out


def test_a_run_with_only_a_plan(make_run, runs):
    make_run([Spec(0, state="pending")])
    out = runs("show", "latest").out
    assert "1 planned = 0 ok + 0 rejected + 0 failed + 0 skipped + 1 pending  (balances)" in out
    assert "No verdicts yet" in out


def test_a_run_without_a_plan(make_run, runs):
    make_run([], plan=False)
    assert "no whole plan yet" in runs("show", "latest").out


def test_a_run_killed_before_its_run_json(make_run, runs):
    run = make_run([Spec(0, state="pending")], run_json=False)
    ran = runs("show", str(run.path))
    assert ran.code == 0
    assert "there is no run.json yet" in ran.out


def test_a_failure_that_succeeded_later_is_no_failure(make_run, runs):
    from runner.rundir import append_line

    run = make_run([Spec(0)])
    append_line(run.failures, failure_of(Spec(0)))
    facts = read_facts(run)
    assert facts.failures == {}
    assert facts.counts.ok == 1


def test_samples_that_the_plan_no_longer_wants_are_told_of(make_run, runs):
    run = make_run([Spec(0)])
    stranger = Spec(9)
    append(run.samples, [stranger.sample()])
    append(run.verdicts("online"), [stranger.judgement()])
    assert "and 1 sample that the plan no longer wants" in runs("show", "latest").out


def test_max_attempts_of_the_config_decides_what_is_failed(make_run):
    run = make_run([Spec(0, state="failed")])
    assert read_facts(run).counts.failed == 1
    run.config_yaml.write_text("client: {retry: {max_attempts: 9}}\n")
    assert read_facts(run).counts.pending == 1


def test_a_config_that_is_no_yaml_is_an_error_and_no_traceback(make_run, runs):
    make_run([Spec(0)]).config_yaml.write_text("client: [")
    ran = runs("show", "latest")
    assert ran.code == 1
    assert "config.yaml" in ran.err


def test_another_verdict_set_can_be_read(make_run, runs):
    run = make_run([Spec(0)])
    other = Spec(0, verdicts={"strict": failing("too_short", "reject")})
    append(run.verdicts("strict"), [other.judgement()])
    assert "1 planned = 0 ok + 1 rejected" in runs("show", "latest", "--set", "strict").out


def test_an_unknown_verdict_set_names_those_there_are(run, runs):
    ran = runs("show", "latest", "--set", "nope")
    assert ran.code == 2
    assert "online" in ran.err


def test_the_reason_of_the_end_is_shown(make_run, runs):
    make_run(MIXED, status=RunStatus.STOPPED_BAD_DATA, reason="21 of 40 rejected: \x1b[31mnan")
    assert "21 of 40 rejected: \\x1b[31mnan" in runs("show", "latest").out


def test_a_damaged_shard_is_an_error_with_a_place(run, runs):
    path = next(run.verdicts("online").glob("*.zst"))
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(bytes(data))
    ran = runs("show", "latest")
    assert ran.code == 1
    assert path.name in ran.err


@pytest.mark.parametrize("name", ["1f6cad1c", "tiny_reasoner-B4", "latest"])
def test_a_run_is_found_by_a_part_of_its_name(run, runs, name):
    assert runs("show", name).code == 0


def test_a_run_is_found_by_path_or_by_path_under_outputs(run, runs):
    assert runs("show", str(run.path)).code == 0
    assert runs("show", f"main/{run.path.name}").code == 0


def test_an_unknown_run_exits_2_and_names_those_there_are(run, runs):
    ran = runs("show", "nope")
    assert ran.code == 2
    assert run.path.name in ran.err


def test_several_matches_exit_2(make_run, runs):
    make_run([Spec(0)])
    make_run([Spec(0)], "tiny_reasoner-B5-thinking-greedy-00000000")
    ran = runs("show", "tiny")
    assert ran.code == 2
    assert "write TASK/ID: main/1f6cad1c or main/00000000" in ran.err
    assert runs("show", "main/00000000").code == 0


def test_one_digest_in_two_tasks_is_told_apart_by_the_task(make_run, runs):
    make_run([Spec(0)])
    make_run([Spec(0)], task="night")
    ran = runs("show", "1f6cad1c")
    assert ran.code == 2
    assert "write TASK/ID: main/1f6cad1c or night/1f6cad1c" in ran.err
    ran = runs("show", "night/1f6cad1c")
    assert ran.code == 0
    assert "runner.runs verify night/1f6cad1c" in ran.out


def test_an_unreadable_run_does_not_hide_the_latest(make_run, runs):
    make_run([Spec(0)])
    make_run([Spec(0)], "broken-00000000").run_json.write_text("{")
    assert runs("show", "latest").code == 0


def test_latest_is_the_one_worked_on_last(make_run, runs):
    make_run([Spec(0)], heartbeat=1.0)
    make_run([Spec(0)], "older-00000000", heartbeat=2.0)
    assert "older-00000000  done" in runs("show", "latest").out
