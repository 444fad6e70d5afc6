import json

import msgspec
import pytest

from runner.ledger import supersede_other_prompts
from runner.records import Counts, RunStatus
from runner.runs.checks import check_run
from tests.runs.conftest import MIXED, Spec, append, ids


def whats(run, **more):
    return [fault.what for fault in check_run(run, **more).problems]


def with_change(make_run, **changes):
    return make_run([Spec(0), Spec(1, changes=changes)])


@pytest.mark.parametrize("full", [False, True])
def test_a_sound_run_has_no_problem(make_run, full):
    run = make_run(MIXED)
    report = check_run(run, full=full)
    assert report.problems == []
    assert report.samples == 5
    assert [one.folder for one in report.checked] == [
        "samples",
        "verdicts/online",
        "plan",
        "prompts",
    ]


def test_a_sound_run_exits_0_and_says_how_much_was_looked_at(make_run, runs):
    make_run(MIXED)
    ran = runs("verify", "latest")
    assert ran.code == 0
    assert "5 samples with 350 tokens" in ran.out
    assert ran.out.endswith("All is well.\n")


def test_a_problem_exits_1_and_names_file_frame_and_id(make_run, runs):
    with_change(make_run, completion_tokens=3)
    ran = runs("verify", "latest")
    assert ran.code == 1
    assert "samples/shard-00000.jsonl.zst frame 0 B4-1-0: output_ids holds 13 ids" in ran.out


def test_a_problem_names_the_command_that_mends(make_run, runs):
    run = with_change(make_run, completion_tokens=3)
    mend = "Damaged files are mended by: python -m runner.runs repair"
    end = f"1 problem. Nothing was changed.\n{mend} "
    assert runs("verify", "latest").out.endswith(f"{end}1f6cad1c\n")
    elsewhere = run.path.rename(run.path.parents[2] / "copy")
    assert runs("verify", str(elsewhere)).out.endswith(f"{end}{elsewhere}\n")


def test_prompt_tokens_must_agree_with_the_ids(make_run):
    assert whats(with_change(make_run, prompt_tokens=1)) == [
        "input_ids holds 15 ids; prompt_tokens says 1"
    ]


@pytest.mark.parametrize("token", [1280, -1, 2**40])
def test_an_id_outside_the_padded_vocabulary_is_found(make_run, token):
    run = with_change(make_run, output_ids=[*ids("a"), token], completion_tokens=2)
    assert whats(run) == [f"output_ids holds {token}; the model has ids 0 to 1279"]


def test_the_highest_padded_id_is_within(make_run):
    assert whats(with_change(make_run, output_ids=[1279], completion_tokens=1)) == []


def test_a_line_that_is_no_sample_is_found(make_run):
    run = make_run([Spec(0)])
    bad = msgspec.to_builtins(Spec(1).sample()) | {"output_ids": [1, 2.5]}
    append(run.samples, [bad])
    found = whats(run)
    assert any("not a sample: Expected `int`, got `float`" in what for what in found)


def test_an_id_that_the_plan_does_not_know_is_found(make_run):
    run = make_run([Spec(0)])
    append(run.samples, [Spec(9).sample()])
    assert "the plan has no such id" in whats(run)


def test_a_sample_of_another_prompt_is_found(make_run):
    run = with_change(make_run, prompt_hash="f" * 64)
    assert "its prompt hash is not that of the plan" in whats(run)


def test_the_same_id_and_try_twice_is_found(make_run):
    run = make_run([Spec(0)])
    append(run.samples, [Spec(0).sample()])
    assert whats(run) == ["the shards hold this id with try 1 already"]


@pytest.mark.parametrize("full", [False, True])
def test_an_id_asked_for_again_is_no_duplicate(make_run, full):
    run = make_run([Spec(0)])
    append(run.samples, [Spec(0, try_=2).sample()])
    append(run.verdicts("online"), [Spec(0, try_=2).judgement()])
    assert whats(run, full=full) == []


@pytest.mark.parametrize("full", [False, True])
def test_an_id_planned_twice_is_found(make_run, full):
    run = make_run([Spec(0), Spec(1)])
    append(run.plan, [Spec(0).planned()])
    (fault,) = check_run(run, full=full).problems
    assert (fault.what, fault.sample_id) == ("it is planned twice", "B4-0-0")
    assert fault.file == "plan/shard-00001.jsonl.zst"


def test_a_row_that_is_planned_anew_as_skipped_is_no_problem(make_run):
    run = make_run([Spec(0, state="pending")])
    append(run.plan, [msgspec.structs.replace(Spec(0).planned(), skip="over_context: x")])
    assert [what for what in whats(run, full=True) if "twice" in what] == []


@pytest.mark.parametrize("full", [False, True])
def test_a_prompt_that_was_changed_and_accepted_is_no_problem(make_run, full):
    """And back again: the last line of plan/ counts, and the try tells the samples apart."""
    run = make_run([Spec(0)])
    new = {"prompt_hash": "e" * 32}
    append(run.plan, [msgspec.structs.replace(Spec(0).planned(), **new)])
    assert supersede_other_prompts(run) == 1
    append(run.samples, [Spec(0, try_=2, changes=new).sample()])
    append(run.verdicts("online"), [msgspec.structs.replace(Spec(0, try_=2).judgement(), **new)])
    assert whats(run, full=full) == []
    append(run.plan, [Spec(0).planned()])
    assert supersede_other_prompts(run) == 1
    append(run.samples, [Spec(0, try_=3).sample()])
    append(run.verdicts("online"), [Spec(0, try_=3).judgement()])
    assert whats(run, full=full) == []


def test_a_verdict_on_no_sample_is_found(make_run):
    run = make_run([Spec(0)])
    append(run.verdicts("online"), [Spec(9).judgement()])
    assert whats(run) == ["1 verdict on samples that are not in the shards"]


def test_a_sample_without_a_verdict_is_a_note(make_run):
    report = check_run(make_run([Spec(0), Spec(1, state="unjudged")]))
    assert report.ok
    assert report.notes == ["1 sample without a verdict in set online"]


def test_counts_of_run_json_that_are_not_those_of_the_files_are_found(make_run):
    run = make_run([Spec(0)], counts=Counts(planned=1, pending=1))
    assert whats(run) == [
        "run.json tells of other counts than the files: ok 0 there and 1 here, "
        "pending 1 there and 0 here"
    ]


def test_counts_of_a_killed_run_may_be_old(make_run):
    stale = Counts(planned=1, pending=1)
    run = make_run([Spec(0)], counts=stale, status=RunStatus.RUNNING, pid=2**22 + 1)
    assert whats(run) == []


def test_a_flipped_bit_is_found_with_its_place(make_run):
    run = make_run(MIXED)
    path = next(run.samples.glob("*.zst"))
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(bytes(data))
    report = check_run(run)
    assert report.problems
    assert report.problems[0].file == "samples/shard-00000.jsonl.zst"
    assert report.problems[0].frame == 0


def test_a_lost_shard_is_found(make_run):
    run = make_run(MIXED)
    next(run.samples.glob("*.zst")).unlink()
    assert "listed in the manifest, not there" in whats(run)


def test_a_torn_tail_of_a_killed_run_is_no_problem(make_run):
    run = make_run([Spec(0)], status=RunStatus.RUNNING, pid=2**22 + 1)
    whole = next(run.samples.glob("*.zst")).read_bytes()
    (run.samples / "shard-00001.jsonl.zst.part").write_bytes(whole[:50])
    report = check_run(run)
    assert report.problems == []
    assert report.checked[0].tail_bytes == 50


def test_a_lost_profile_is_a_problem_and_no_traceback(make_run):
    run = make_run([Spec(0)])
    run.profile_json.unlink()
    assert "token profile" in whats(run)[0]


def test_a_run_without_anything_is_sound(make_run):
    assert whats(make_run([], plan=False)) == []


def test_json_tells_all(make_run, runs):
    with_change(make_run, completion_tokens=3)
    ran = runs("verify", "latest", "--json")
    report = json.loads(ran.out)
    assert ran.code == 1
    assert report["ok"] is False
    assert report["problems"][0]["sample_id"] == "B4-1-0"


def test_many_problems_are_cut_on_a_screen(make_run, runs):
    wrong = {"completion_tokens": 1}
    make_run([Spec(row, changes=wrong) for row in range(60)])
    out = runs("verify", "latest").out
    assert "and 10 more; --json lists all of them" in out
    assert "60 problems. Nothing was changed.\n" in out
