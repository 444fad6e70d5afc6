"""Judging a run again from its directory alone, and asking the chat API for comparison."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runner.conclusion import read_findings
from runner.engines.base import EngineFault
from runner.engines.chat import ChatAnswer, read_answer
from runner.ledger import PartRequest, PlanRequest, read_judgements, sample_keying
from runner.parity import compare
from runner.promptfinder import PromptFinder
from runner.records import PlannedSample, Prompt, RunStatus, Sample
from runner.rejudge import current_positions, read_settings, rejudge
from runner.rundir import RunDir, RunState, append_line, replace_file
from runner.runs import main
from runner.shards import ShardWriter
from runner.world import WEIGHTS, Change
from tests.families.build import profile_named, tokenizer_named
from tests.validators.make import DEFAULT, ids_of, prompt_of, rendered, sample_of

FAMILY = "kimi_k25"
ANSWERS = (
    "Hm.</think>It is 4.<|im_end|>",
    "Hm, never closed.<|im_end|>",
    "A[BOS]</think>b<|im_end|>",
)
MakeRun = Callable[..., RunDir]


def put(folder: Path, records: list, keying=sample_keying) -> None:
    with ShardWriter(folder, keying=keying, fsync=False) as writer:
        for record in records:
            writer.put(msgspec.json.encode(record))


@pytest.fixture
def made(built: RunDir, tmp_path: Path) -> RunDir:
    """A copy of the run to work on."""
    return RunDir(shutil.copytree(built.path, tmp_path / "outputs" / "t" / "kimi-run"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """1,100 samples, three of them written a second time, in a run directory of its own."""
    run = RunDir(tmp_path_factory.mktemp("built") / "run")
    rows = 1100
    prompts = [prompt(row) for row in range(rows)]
    samples = [sample(prompts[row], ANSWERS[row % 3]) for row in range(rows)]
    put(run.prompts, prompts, keying=lambda _line: ("", 0))
    put(run.plan, [planned(row) for row in range(rows)])
    part = PartRequest(fingerprint="", rows=rows, count=None, n=1, threshold=2**64 - 1)
    request = PlanRequest(seed=1, parts={"B4": part})
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    put(run.samples, samples)
    put(run.samples, [sample(prompts[row], ANSWERS[0], try_=1) for row in (1, 2, 4)])
    tokenizer_named(FAMILY).save(run.tokenizer)
    replace_file(run.profile_json, msgspec.json.encode(profile_named(FAMILY)))
    config = {
        "category": {"parts": {"B4": {"expected": {"shortest": 2}}}},
        "validators": DEFAULT,
        "mode": {"name": "thinking"},
        "model": {"trust_remote_code": False},
    }
    replace_file(run.config_yaml, json.dumps(config).encode())
    return run


def prompt(row: int) -> Prompt:
    made = prompt_of(f"What is {row}?", answer="4")
    return msgspec.structs.replace(made, row=row, prompt_hash=f"{row + 1:032x}")


def planned(row: int) -> PlannedSample:
    return PlannedSample(
        sample_id=f"B4-{row}-0",
        prompt=row,
        prompt_hash=f"{row + 1:032x}",
        category="B4",
        row=row,
        k=0,
        prompt_tokens=9,
    )


def sample(asked: Prompt, output: str, **changes: object) -> Sample:
    return sample_of(
        ids_of(FAMILY, output),
        input_ids=rendered(FAMILY, asked, "thinking"),
        sample_id=f"B4-{asked.row}-0",
        row=asked.row,
        prompt_hash=asked.prompt_hash,
        **changes,
    )


def judgements_of(run: RunDir, verdict_set: str) -> dict:
    return {j.sample_id: j for j in read_judgements(run, verdict_set)}


def test_only_current_samples_are_judged(made: RunDir) -> None:
    positions = current_positions(made)
    assert len(positions) == 1100
    assert {1100, 1101, 1102} <= set(positions.tolist())
    assert not {1, 2, 4} & set(positions.tolist())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_set_holds_one_judgement_for_each_sample(made: RunDir, processes: int) -> None:
    found = rejudge(read_settings(made), "again", processes=processes)
    assert (found.samples, found.rejected) == (1100, 365)
    by_id = judgements_of(made, "again")
    assert len(by_id) == 1100
    assert by_id["B4-1-0"].verdicts["thinking"].outcome == "pass"  # superseded by a good one
    assert by_id["B4-7-0"].verdicts["thinking"].reason == "no_close"
    assert by_id["B4-0-0"].verdicts["answer"].score == 1.0  # the prompt was found
    assert list(by_id) == list(dict.fromkeys(by_id))
    assert {f.reason for f in read_findings(made, "again")} <= {"same_output", "same_sample"}


def test_one_process_and_two_give_the_same_verdicts(made: RunDir) -> None:
    rejudge(read_settings(made), "one", processes=1)
    rejudge(read_settings(made), "two", processes=2)
    assert judgements_of(made, "one") == judgements_of(made, "two")


def test_a_set_is_replaced_as_a_whole(made: RunDir) -> None:
    settings = read_settings(made)
    rejudge(settings, "again", processes=1)
    fewer = {name: DEFAULT[name] for name in ("finish", "vocab")}
    rejudge(read_settings(made, fewer), "again", processes=1)
    first = next(iter(judgements_of(made, "again").values()))
    assert set(first.verdicts) == {"finish", "vocab"}
    assert [path.name for path in (made.path / "verdicts").iterdir()] == ["again"]


def test_every_planned_sample_finds_its_prompt(made: RunDir) -> None:
    finder = PromptFinder(made)
    asked = prompt(77)
    assert finder.find(sample(asked, ANSWERS[0])) == asked
    stranger = msgspec.structs.replace(sample(asked, ANSWERS[0]), sample_id="B9-1-0")
    assert finder.find(stranger) is None
    assert set(finder.find_all([stranger, sample(asked, ANSWERS[0])])) == {"B4-77-0"}


def test_the_command_makes_a_set_and_compares_it(
    made: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    rejudge(read_settings(made), "online", processes=1)
    arguments = ["validate", str(made.path), "validators=strict", "--set", "hard"]
    assert main([*arguments, "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert "set hard: 1,100 samples, 730 rejected" in said
    assert "no_close" in said
    assert main(["show", str(made.path), "--compare", "hard"]) == 0
    assert "+365" in capsys.readouterr().out


def test_a_set_of_the_users_own(
    made: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "my 'conf'" / "validators" / "mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("defaults: [default]\nagain: {_target_: validators.finish.Finish}\n")
    arguments = ["validate", str(made.path), "--config-dir", str(own.parent.parent)]
    assert main([*arguments, "validators=mine", "--processes", "1"]) == 0
    verdicts = judgements_of(made, "rejudged")["B4-0-0"].verdicts
    assert {"again", "finish", "vocab"} <= set(verdicts)
    assert main([*arguments, "validators=other", "--processes", "1"]) == 2
    assert "default, mine, strict" in capsys.readouterr().err
    nowhere = ["validate", str(made.path), "--config-dir", str(tmp_path / "nowhere")]
    assert main([*nowhere, "--processes", "1"]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["validators=nothing"], "no such validator set"),
        (["validators=nothing"], "default, strict"),
        (["~validators.nothing"], "nothing of that name to drop"),
        (["validators.finish.severity.nonsense=reject"], "no such reason"),
        (["validators.finish.severity.nan_stop=grave"], "one of three words"),
        (["sampling=greedy"], "changes the validators only"),
        (["validators.text=1"], "needs a class"),
        (["validators.text.nonsense=1"], "could not be made"),
        (["validators.text="], "could not|needs|cannot"),
        (["--set", "online"], "cannot be the name"),
        (["--set", "../elsewhere"], "cannot be the name"),
    ],
)
def test_a_wrong_command_is_told(
    made: RunDir, overrides: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["validate", str(made.path), *overrides, "--processes", "1"]
    code = main(arguments)
    said = capsys.readouterr().err
    if overrides == ["validators.text="]:
        assert code in (0, 2)
        return
    assert code == 2
    assert what in said


def raw_and_chat(text: str, chat: ChatAnswer) -> list[str]:
    profile = profile_named(FAMILY)
    ids = ids_of(FAMILY, text)
    mode = profile.modes["thinking"]
    decode = tokenizer_named(FAMILY).decode
    return compare("B4-0-0", 9, ids, chat, profile, mode, decode).faults


def test_a_chat_api_that_drops_the_close_and_moves_the_reasoning() -> None:
    chat = ChatAnswer(content="It is 4.", reasoning="Hm.", prompt_tokens=9, completion_tokens=99)
    faults = raw_and_chat("Hm.</think>It is 4.<|im_end|>", chat)
    assert "dropped: 1 x </think>, 1 x <|im_end|>" in faults
    assert any(fault.startswith("other count:") for fault in faults)
    assert not any("reasoning" in fault or "answer" in fault for fault in faults)


def test_reasoning_that_is_left_in_the_answer_or_lost() -> None:
    left = raw_and_chat("Hm.</think>4", ChatAnswer(content="Hm.</think>4"))
    assert "reasoning: moved to content" in left
    lost = raw_and_chat("Hm.</think>4", ChatAnswer(content="4"))
    assert "reasoning: 3 characters raw, not found in the chat answer" in lost


def test_tool_calls_and_prompts_that_do_not_agree() -> None:
    call = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    section = f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"
    faults = raw_and_chat(f"Hm.</think>{section}", ChatAnswer(reasoning="Hm.", prompt_tokens=8))
    assert "tool calls: 1 raw, 0 by the chat API" in faults
    assert "other prompt: 9 ids raw, 8 by the chat API" in faults


def test_a_chat_answer_without_a_choice_is_a_fault() -> None:
    assert read_answer({"choices": [{"message": {"content": None}}]}).content == ""
    for body in ({}, {"choices": []}, [], {"choices": [None]}):
        with pytest.raises(EngineFault):
            read_answer(body)


def test_nothing_is_expected_of_the_lengths_of_bundled_prompts(made: RunDir) -> None:
    """As online: the config's figures are those of the data set that a part stands for."""
    config = json.loads(made.config_yaml.read_bytes())
    config["category"]["parts"]["B4"]["expected"]["output_tokens"] = 8000
    replace_file(made.config_yaml, json.dumps(config).encode())
    assert read_settings(made).expected["B4"].output_tokens == 8000
    replace_file(made.config_yaml, json.dumps({**config, "source": {"kind": "bundled"}}).encode())
    found = read_settings(made).expected["B4"]
    assert (found.output_tokens, found.shortest) == (None, 2)


def test_the_weights_of_a_run_are_those_of_its_world_and_of_what_was_accepted(
    made: RunDir,
) -> None:
    assert read_settings(made).weight_versions == []
    made.write(RunState(run_id="r", status=RunStatus.DONE, world={WEIGHTS: "v2"}))
    assert read_settings(made).weight_versions == ["v2"]
    append_line(made.attempt(2) / "accepted.jsonl", Change(name=WEIGHTS, was="v1", now="v2"))
    assert read_settings(made).weight_versions == ["v1", "v2"]
    put(
        made.samples,
        [sample(prompt(row), ANSWERS[0], try_=2, weight_version=f"v{row}") for row in (1, 2, 4)],
    )
    rejudge(read_settings(made), "again", processes=1)
    changed = [
        one.sample_id
        for one in read_judgements(made, "again")
        if one.verdicts["contract"].reason == "weights_changed"
    ]
    assert changed == ["B4-4-0"]


CHANNEL_CALL = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>"
MINIMAX_CALLS = (
    '<minimax:tool_call>\n<invoke name="a"></invoke>\n<invoke name="b"></invoke>\n'
    "</minimax:tool_call>[e~["
)
DSML_CALL = (
    '<｜DSML｜function_calls><｜DSML｜invoke name="a"></｜DSML｜invoke></｜DSML｜function_calls>'
)


@pytest.mark.parametrize(
    ("family", "text", "calls", "differs"),
    [
        ("gpt_oss", CHANNEL_CALL, 1, False),
        ("gpt_oss", CHANNEL_CALL, 0, True),
        ("minimax_m2", f"Hm.</think>{MINIMAX_CALLS}", 2, False),
        ("minimax_m2", f"Hm.</think>{MINIMAX_CALLS}", 0, True),
        ("deepseek_v32", f"Hm.</think>{DSML_CALL}", 1, False),
        ("deepseek_v32", f"Hm.</think>{DSML_CALL}", 0, True),
        ("llama3", '{"name": "look", "parameters": {}}<|eot_id|>', 1, False),
    ],
)
def test_calls_are_counted_where_the_family_can_be_counted_by_ids(
    family: str, text: str, calls: int, differs: bool
) -> None:
    profile, ids = profile_named(family), ids_of(family, text)
    mode = next(iter(profile.modes.values()))
    chat = ChatAnswer(content="", reasoning="", tool_calls=[{}] * calls)
    found = compare("B4-0-0", 9, ids, chat, profile, mode, tokenizer_named(family).decode)
    assert any(fault.startswith("tool calls:") for fault in found.faults) is differs
