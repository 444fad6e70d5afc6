"""The main job on the embedded default: a real llama.cpp, the bundled model, real prompts."""

import json
from pathlib import Path

from runner.export import FORMATS
from runner.rundir import reference_of
from tests.e2e.conftest import Outputs


def test_the_main_job_runs_is_found_done_and_can_be_looked_at(outputs: Outputs) -> None:
    first = outputs.run("category=B4", "sampling=greedy", "category.count=6")
    assert first.code == 0, first.text
    assert "planned 6 = ok 6 + rejected 0 + failed 0 + skipped 0 + pending 0" in first.text
    assert "python -m runner.runs decode" in first.text
    samples = outputs.samples()
    assert len(samples) == 6
    for sample in samples.values():
        assert sample.prompt_tokens == len(sample.input_ids)
        assert sample.completion_tokens == len(sample.output_ids) > 0
        assert sample.finish == "length" or sample.output_ids[-1] == sample.matched_token

    again = outputs.run("category=B4", "sampling=greedy", "category.count=6")
    assert again.code == 0, again.text
    assert "already done: nothing to do" in again.text
    assert outputs.samples() == samples

    verified = outputs.tool("verify", "latest", "--full")
    assert verified.code == 0, verified.text
    decoded = outputs.tool("decode", "latest", "--shortest", "1", "--chars", "200")
    assert decoded.code == 0, decoded.text
    assert "</think>" in decoded.text

    more = outputs.run("category=B4", "sampling=greedy", "category.count=8", "category.n=2")
    assert more.code == 0, more.text
    grown = outputs.samples()
    assert len(grown) == 16
    assert {key: grown[key] for key in samples} == samples


def test_a_sweep_gives_a_whole_run_for_each_job(outputs: Outputs) -> None:
    ended = outputs.run("-m", "category=B1,B4", "sampling=greedy", "category.count=2")
    assert ended.code == 0, ended.text
    assert sorted(run.read().names["category"] for run in outputs.runs) == ["B1", "B4"]
    assert all(run.read().status == "done" for run in outputs.runs)


def test_instant_mode_has_no_think_marker(outputs: Outputs) -> None:
    ended = outputs.run("mode=instant", "sampling=greedy", "category.count=3")
    assert ended.code == 0, ended.text
    for sample in outputs.samples().values():
        assert sample.input_ids[-2:] == [1263, 1264]
        assert 1264 not in sample.output_ids


def test_a_prompt_longer_than_the_context_is_accounted_for(
    outputs: Outputs, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    long = "word " * 3000
    rows.write_text(
        '{"messages": [{"role": "user", "content": "What is 3 + 4?"}]}\n'
        f'{{"messages": [{{"role": "user", "content": "{long}"}}]}}\n'
        '{"messages": [{"role": "user", "content": "  "}]}\n'
        '{"messages": [{"role": "user"'
    )
    ended = outputs.run("source=file", f"source.path={rows}", "sampling=greedy")
    assert ended.code == 0, ended.text
    assert "planned 4 = ok 1 + rejected 0 + failed 0 + skipped 3 + pending 0" in ended.text


def test_a_smaller_plan_owes_nothing_and_starts_no_server(outputs: Outputs) -> None:
    job = ["category.count=3", "sampling=greedy"]
    assert outputs.run(*job, "category.n=2").code == 0
    ended = outputs.run(*job, "category.n=1")
    assert ended.code == 0
    assert "nothing is owed: no server is started" in ended.text
    assert "starting server" not in ended.text
    assert "planned 3 = ok 3" in ended.text
    assert "3 samples that the plan does not ask for any more" in ended.text
    assert outputs.state().launches == 1


def test_a_run_whose_digest_another_task_shares_is_named_with_its_task(outputs: Outputs) -> None:
    job = ["category.count=2", "sampling=greedy"]
    assert outputs.run(*job).code == 0
    ended = outputs.run(*job, "task_name=other")
    assert ended.code == 0
    (run,) = (run for run in outputs.runs if run.path.parent.name == "other")
    assert reference_of(run) == f"other/{run.path.name[-8:]}"


def test_a_real_run_is_exported_in_every_format(outputs: Outputs) -> None:
    assert outputs.run("category=all", "category.count=2", "sampling=greedy").code == 0
    for to in FORMATS:
        out = outputs.path.parent / to
        ended = outputs.tool("export", "latest", "--to", to, "--out", str(out))
        assert ended.code == 0, ended.text
        counts = json.loads((out / "manifest.json").read_text())["counts"]
        assert counts["samples"] == 16
        assert 0 < counts["exported"] == 16 - counts["left_out"]
