import json

import pytest

from runner.runs.sample_print import Look, print_sample
from runner.view.picks import Pick
from runner.view.sample_view import view_of
from tests.runs.conftest import (
    MIXED,
    PROFILE,
    TOKENIZER,
    Spec,
    append,
    failing,
    ids,
    terminal,
    written,
)

EVIL = "\x1b[2J[bold]x[/] \u202e\n[answer] 9 tokens</think>⟦ok⟧<|im_end|>"


@pytest.fixture
def run(make_run):
    return make_run(MIXED)


def json_lines(ran):
    return [json.loads(line) for line in ran.out.splitlines()]


def shown_ids(ran):
    return [one["sample_id"] for one in json_lines(ran)]


def test_without_a_selection_shortest_longest_and_random_are_shown(run, runs):
    ran = runs("decode", "latest")
    assert ran.code == 0
    for why in ("shortest, 1 of 2", "longest, 1 of 2", "at random, 1 of 2"):
        assert why in ran.out


def test_a_cut_sample_is_called_cut(run, runs):
    assert (
        "CUT at 4 tokens: length, inside reasoning"
        in runs("decode", "latest", "--id", "B4-2-0").out
    )


def test_the_text_is_marked_by_kind(run, runs):
    out = runs("decode", "latest", "--id", "B4-0-0").out
    assert "[reasoning] 5 tokens from 0\n  Two and two.\n" in out
    assert "[special] </think>  at 5\n[answer] 6 tokens from 6\n  It is 4.\n" in out


def test_the_prompt_shows_special_tokens_in_brackets(run, runs):
    assert (
        "⟦<|im_middle|>⟧What is 2+2?⟦<|im_end|>⟧" in runs("decode", "latest", "--id", "B4-0-0").out
    )


def test_no_prompt_leaves_it_out(run, runs):
    assert "What is 2+2?" not in runs("decode", "latest", "--id", "B4-0-0", "--no-prompt").out


def test_plain_output_has_no_escape_and_no_lines_drawn(run, runs):
    assert not set("\x1b│─━┃") & set(runs("decode", "latest").out)


def test_failed_verdicts_come_first_with_severity_and_detail(run, runs):
    lines = runs("decode", "latest", "--id", "B4-2-0").out.splitlines()
    verdicts = [line for line in lines if line.startswith("  verdict")]
    assert verdicts == [
        "  verdict  FLAG finish length_in_think: no </think>",
        "  verdict  passed: contract",
    ]


def test_rows_reasons_and_finish_add_up_in_order(run, runs):
    ran = runs(
        "decode", "latest", "--finish", "length", "--row", "0", "--reason", "unassigned", "--json"
    )
    assert shown_ids(ran) == ["B4-2-0", "B4-0-0", "B4-3-0"]


def test_category_narrows(run, runs):
    assert shown_ids(runs("decode", "latest", "--category", "B5", "--json")) == ["B5-4-0"]


def test_a_row_may_have_samples_in_two_categories(make_run, runs):
    make_run([Spec(0), Spec(0, category="B5")])
    assert shown_ids(runs("decode", "latest", "--row", "0", "--json")) == ["B4-0-0", "B5-0-0"]


def test_json_has_exact_ids_and_text(make_run, runs):
    spec = Spec(0, output=EVIL)
    make_run([spec])
    ran = runs("decode", "latest", "--id", "B4-0-0", "--json")
    [one] = json_lines(ran)
    assert one["sample"]["output_ids"] == ids(EVIL)
    assert "".join(s["text"] for s in one["output"]) == EVIL
    assert ran.out.isascii()


def test_json_holds_ending_and_judgement(run, runs):
    [one] = json_lines(runs("decode", "latest", "--id", "B4-2-0", "--json"))
    assert one["cut"] is True
    assert one["judgement"]["verdicts"]["finish"]["reason"] == "length_in_think"


def test_hostile_text_is_escaped_and_cannot_fake_a_marker(make_run, runs):
    make_run([Spec(0, output=EVIL)])
    out = runs("decode", "latest").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "  \\x1b[2J[bold]x[/] \\u202e\n  [answer] 9 tokens\n" in out
    assert "\\u27e6ok\\u27e7" in out


def test_hostile_text_is_escaped_on_a_terminal_too():
    class Decoder:
        def decode(self, ids):
            return TOKENIZER.decode(ids, skip_special_tokens=False)

    screen = terminal()
    view = view_of(Spec(0, output=EVIL).sample(), PROFILE, Decoder())
    print_sample(screen, view, pick=Pick("B4-0-0", ("id",)), judgement=None, look=Look())
    assert "\x1b[2J" not in written(screen)
    assert "\\x1b" in written(screen)
    assert "[bold]x[/]" in written(screen)


def test_a_hostile_verdict_detail_is_escaped(make_run, runs):
    make_run([Spec(0, verdicts={"v": failing("r", detail="bad \x1b]0;title\x07\nline")})])
    out = runs("decode", "latest").out
    assert "FLAG v r: bad \\x1b]0;title\\x07\\nline" in out


def test_chars_clips_each_stretch_in_the_middle(run, runs):
    out = runs("decode", "latest", "--id", "B4-1-0", "--chars", "40").out
    assert "\n  Long thought Long th … 480 characters left out … hought Long thought \n" in out


def test_full_leaves_nothing_out(run, runs):
    assert "Long thought " * 40 in runs("decode", "latest", "--id", "B4-1-0", "--full").out


def test_ids_are_shown_on_demand(run, runs):
    out = runs("decode", "latest", "--id", "B4-0-0", "--ids").out
    assert "  ids " + " ".join(map(str, ids("Two and two."))) in out


def test_many_ids_are_clipped(run, runs):
    out = runs("decode", "latest", "--id", "B4-1-0", "--ids").out
    assert "… 161 ids left out …" in out


@pytest.mark.parametrize(
    ("sample_id", "why"),
    [
        ("B4-5-0", "failed after 4 requests, unparsable: the answer was no JSON"),
        ("B4-6-0", "skipped, over_context: 9,000 prompt tokens"),
        ("B4-7-0", "not generated yet"),
    ],
)
def test_a_sample_that_is_not_there_is_explained(run, runs, sample_id, why):
    ran = runs("decode", "latest", "--id", sample_id)
    assert ran.code == 1
    assert ran.out == f"{sample_id}  no sample: {why}\n\n"


def test_an_id_that_the_plan_does_not_know_is_a_wrong_command(run, runs):
    ran = runs("decode", "latest", "--id", "B9-1-0", "--id", "B4-0-0")
    assert ran.code == 2
    assert "B9-1-0  no sample: the plan has no such id\n\nB4-0-0" in ran.out
    assert runs("decode", "latest", "--row", "99999").code == 2


def test_a_category_that_there_is_not_names_those_there_are(run, runs):
    ran = runs("decode", "latest", "--category", "B9")
    assert ran.code == 2
    assert "No sample is of this category" in ran.err
    assert "B4 (4), B5 (1)" in ran.err


def test_a_missing_sample_is_a_json_line_too(run, runs):
    [one] = json_lines(runs("decode", "latest", "--id", "B4-7-0", "--json"))
    assert one["missing"] == "not generated yet"


def test_nothing_to_show_exits_2(run, runs):
    ran = runs("decode", "latest", "--reason", "no_such_reason")
    assert ran.code == 2
    assert "--reason no_such_reason: no sample" in ran.err
    assert "length_in_think (1), unassigned (1)" in ran.err


def test_the_limit_says_what_it_left_out(run, runs):
    out = runs("decode", "latest", "--finish", "stop", "--limit", "1").out
    assert out.endswith("--finish stop: 4 samples, 1 shown; --limit 0 shows all\n")


def test_samples_without_a_verdict_are_found(make_run, runs):
    make_run([Spec(0), Spec(1, state="unjudged", output="Only this.</think>A.<|im_end|>")])
    ran = runs("decode", "latest", "--longest", "9")
    assert "B4-1-0" in ran.out
    assert "not judged yet" in ran.out


def test_a_run_without_any_verdict_set_can_be_read(make_run, runs):
    make_run([Spec(0, state="unjudged")])
    assert shown_ids(runs("decode", "latest", "--json")) == ["B4-0-0"]


def test_of_a_sample_asked_for_again_the_new_one_is_shown(make_run, runs):
    run = make_run([Spec(0)])
    again = Spec(0, try_=2, output="Again.</think>Five.<|im_end|>")
    append(run.samples, [again.sample()])
    out = runs("decode", "latest", "--id", "B4-0-0").out
    assert "try 2" in out
    assert "Five." in out
    assert "not judged yet" in out  # the verdict there is on try 1


def test_an_open_shard_of_a_killed_run_is_read(run, runs):
    sealed = next(run.samples.glob("*.zst"))
    sealed.rename(sealed.with_name(sealed.name + ".part"))
    (run.samples / "manifest.json").unlink()
    for sidecar in run.samples.glob("*.npy"):
        sidecar.unlink()
    assert shown_ids(runs("decode", "latest", "--row", "0", "--json")) == ["B4-0-0"]


def test_a_lost_tokenizer_is_explained(run, runs):
    run.profile_json.unlink()
    ran = runs("decode", "latest")
    assert ran.code == 1
    assert "tokenizer/ folder back" in ran.err


@pytest.mark.parametrize("bad", [("--chars", "5"), ("--longest", "0"), ("--finish", "abort")])
def test_a_wrong_value_exits_2(run, runs, bad):
    assert runs("decode", "latest", *bad).code == 2
