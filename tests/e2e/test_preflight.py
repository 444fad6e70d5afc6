"""Prompts that do not fit, met before they are sent: by the plan, and by what the server tells."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.ledger import read_judgements
from tests.e2e.conftest import Outputs, attach


def long_and_short(path: Path) -> list[str]:
    texts = ["Hi", "What is 2 + 3?", "word " * 150, "word " * 170, "word " * 400]
    rows = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in texts]
    path.write_text("\n".join(rows) + "\n")
    return ["source=file", f"source.path={path}", "sampling.max_new_tokens=200"]


@pytest.mark.parametrize(
    ("policy", "answered", "skipped"), [("skip", [200, 200], 3), ("clip", [89, 200, 200], 2)]
)
def test_prompts_that_only_the_servers_context_refuses_are_never_sent(
    outputs: Outputs,
    fake: Callable[..., str],
    tmp_path: Path,
    policy: str,
    answered: list[int],
    skipped: int,
) -> None:
    """The config promises 2,048 tokens of context; the server that is there has 400."""
    url = fake(context_length=400, over_length_rate=1.0)
    rows = long_and_short(tmp_path / "p.jsonl")
    ended = outputs.run(*attach(url), *rows, f"prompts.over_context={policy}")
    assert ended.code == 0, ended.text
    assert "the server takes prompts of 198 tokens beside max_new_tokens=200" in ended.text
    with urllib.request.urlopen(f"{url}/fake/stats", timeout=10) as answer:
        assert json.load(answer).get("refused", 0) == 0
    counts = outputs.state().counts
    assert (counts.ok + counts.rejected, counts.skipped, counts.failed) == (5 - skipped, skipped, 0)
    samples = outputs.samples().values()
    assert sorted(s.requested_max_new_tokens for s in samples) == answered
    assert all(len(s.output_ids) == s.requested_max_new_tokens for s in samples)
    assert not any(one.rejected for one in read_judgements(outputs.runs[0], "online"))
    shown = outputs.tool("show", "latest").text
    assert "over_context" in shown
    assert "prompt tokens, room for 198" in shown

    again = outputs.run(*attach(fake()), *rows, f"prompts.over_context={policy}")
    assert again.code == 0, again.text  # done is done, whatever server is there


def test_a_finding_can_stop_a_run_before_anything_is_sent(
    outputs: Outputs, fake: Callable[..., str], tmp_path: Path
) -> None:
    rows = long_and_short(tmp_path / "p.jsonl")
    url = fake(context_length=400)
    stop_on = "prompts.stop_on=[over_context]"
    ended = outputs.run(*attach(url), *rows, stop_on)
    assert ended.code == 1, ended.text
    assert "B4: 3 x over_context" in ended.text
    assert not outputs.samples()


def test_prepare_only_plans_and_starts_nothing(outputs: Outputs, tmp_path: Path) -> None:
    rows = long_and_short(tmp_path / "p.jsonl")
    ended = outputs.run(*attach("http://127.0.0.1:1"), *rows, "prepare=only")
    assert ended.code == 0, ended.text
    assert "Prepared" in ended.text
    assert "prompt tokens" in ended.text
    assert "the report was not made" not in ended.text
    state = outputs.state()
    assert (state.counts.planned, state.counts.pending) == (5, 5)
    assert state.status == "interrupted"
    (run,) = outputs.runs
    last = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["status"]) == ("status", "done")  # nothing went wrong
