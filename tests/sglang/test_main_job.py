"""The main job against a real SGLang: both models, a sweep on one server, refusals, greedy ids."""

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner.records import Sample
from runner.rundir import find_runs
from tests.e2e.conftest import Outputs, attach
from tests.sglang.conftest import PYTHON, REAL, ROOT, SMOLLM2, START_S, launches, read_json

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]
NEAR_TIE = 0.02
"""Nats between the two most likely tokens below which fp32 of another program may choose
differently; seen: 0.0003 and less."""


def test_the_main_job_with_smollm2(outputs: Outputs) -> None:
    model = ["model=smollm2", f"model.path={SMOLLM2}", "model.gguf=null"]
    done = outputs.run(
        *REAL, *model, "category=B1", "category.count=4", "sampling.max_new_tokens=48",
        timeout_s=START_S,
    )  # fmt: skip
    assert done.code == 0, done.text
    samples = outputs.samples()
    assert len(samples) == 4
    assert {s.prompt_echo for s in samples.values()} == {"same"}
    assert all(s.finish == "stop" or s.finish_length == 48 for s in samples.values())
    (launch,) = launches(outputs)
    about = read_json(launch / "server_info.json")
    assert about["version"] == "0.5.23"
    assert outputs.tool("verify", "latest", "--full").code == 0


def test_two_jobs_of_a_sweep_share_one_server(outputs: Outputs) -> None:
    done = outputs.run(
        *REAL, "category=B4", "category.count=4", "mode=thinking,instant", "-m", timeout_s=START_S
    )
    assert done.code == 0, done.text
    shown = [
        read_json(path)
        for run in find_runs(outputs.path)
        for path in run.attempts.glob("*/launches/*/argv.json")
    ]
    assert len(shown) == 2
    assert len({one["url"] for one in shown}) == 1
    assert [one.get("shared", False) for one in shown].count(True) == 1
    assert all(run.read().counts.ok == 4 for run in find_runs(outputs.path))


def test_a_misspelt_flag_is_refused_before_anything_starts(outputs: Outputs) -> None:
    done = outputs.run(*REAL, "+server.flags.mem-fraction-statc=0.8", timeout_s=START_S)
    assert done.code == 2, done.text
    assert "did you mean mem-fraction-static?" in done.text
    assert not list(outputs.path.glob("*/*/attempts"))


def test_a_prompt_that_the_server_cannot_hold_is_skipped_and_never_sent(
    outputs: Outputs, served: str, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    texts = ["What is 2 + 3?", "one two three four five " * 60]
    rows.write_bytes(
        b"".join(
            msgspec.json.encode({"messages": [{"role": "user", "content": text}]}) + b"\n"
            for text in texts
        )
    )
    done = outputs.run(
        *attach(served), "source=file", f"source.path={rows}", "sampling.max_new_tokens=200",
        timeout_s=START_S,
    )  # fmt: skip
    # The config's context of 2,048 has room for it; only the server tells of its own 512.
    assert "planned 2 = ok 1 + rejected 0 + failed 0 + skipped 1" in done.text, done.text
    assert "skipped: over_context 1" in done.text
    assert "the server takes prompts of" in done.text
    (run,) = outputs.runs
    assert not run.failures.exists() or not run.failures.read_text()


def test_greedy_ids_are_those_of_the_embedded_engine(
    outputs: Outputs, served: str, tmp_path: Path
) -> None:
    job = ["category=all", "category.count=6", "sampling=greedy", "sampling.max_new_tokens=160"]
    full = ["canary.count=0", "breaker.enabled=false"]  # what the model says is not the subject
    real = outputs.run(*attach(served), *job, *full, timeout_s=START_S)
    assert real.code == 0, real.text
    other = Outputs(tmp_path / "embedded")
    embedded = other.run(*f32_model(tmp_path / "model"), *job, *full, timeout_s=START_S)
    assert embedded.code == 0, embedded.text
    ours, theirs = outputs.samples(), other.samples()
    # The served context is shorter: what does not fit there is skipped, and no subject here.
    assert ours.keys() <= theirs.keys()
    assert len(ours) >= 20
    assert [ours[k].input_ids for k in ours] == [theirs[k].input_ids for k in ours]
    differing = [k for k in ours if ours[k].output_ids != theirs[k].output_ids]
    assert len(differing) <= len(ours) // 10
    margins = {k: margin_at_divergence(served, ours[k], theirs[k]) for k in differing}
    assert all(margin < NEAR_TIE for margin in margins.values()), margins


def f32_model(folder: Path) -> list[str]:
    """The overrides of the bundled model as an f32 GGUF, with an f32 cache."""
    folder.mkdir()
    source = ROOT / "runner" / "assets" / "tiny_reasoner"
    for path in source.iterdir():
        if path.suffix in (".json", ".jinja"):
            (folder / path.name).write_bytes(path.read_bytes())
    gguf = folder / "f32.gguf"
    command = [str(PYTHON), "-m", "tools.tiny_reasoner.gguf_export", str(source), str(gguf)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    cache = ["+server.flags.cache_type_k=f32", "+server.flags.cache_type_v=f32"]
    return [f"model.path={folder}", "model.gguf=f32.gguf", *cache]


def margin_at_divergence(url: str, ours: Sample, theirs: Sample) -> float:
    """How much more likely the first choice was than the second where two answers part."""
    pairs = zip(ours.output_ids, theirs.output_ids, strict=False)
    at = next(i for i, (a, b) in enumerate(pairs) if a != b)
    body = {
        "input_ids": [*ours.input_ids, *ours.output_ids[:at]],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }
    first, second = ask(url, body)["meta_info"]["output_top_logprobs"][0]
    assert {first[1], second[1]} == {ours.output_ids[at], theirs.output_ids[at]}
    return abs(first[0] - second[0])


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))
