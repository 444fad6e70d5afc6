"""Tokens/s is one figure wherever a run is told of: output tokens of the bulk by the time that it
took; what the canary or another run brought is none of it."""

import io
import json

import pytest
from rich.console import Console

from runner.ending import summarize
from runner.ledger import fold
from tests.runs.conftest import MIXED, MakeRun, RunCommand, Spec

OTHER = "tiny-B4-thinking-sampled-bbbbbbbb"
BULK = {"generate_tokens": 123_450, "generate_s": 10.0}


def test_every_command_tells_the_same(make_run: MakeRun, runs: RunCommand) -> None:
    run = make_run(MIXED, **BULK)
    make_run([Spec(0)], OTHER)
    rows = [json.loads(line) for line in runs("list", "--json").out.splitlines()]
    assert [r["tokens_per_s"] for r in rows if r["path"] == str(run.path)] == [12_345.0]
    assert "12,345" in runs("list").out
    assert "12,345 output tokens/s over 10 s" in runs("show", "1f6cad1c").out
    told = json.loads(runs("compare", "1f6cad1c", "bbbbbbbb", "--json").out)
    assert told["results"]["output tokens/s"]["1f6cad1c"] == "12,345"
    assert "12,345 tokens/s" in runs("watch", "1f6cad1c").out
    screen = Console(file=io.StringIO(), width=200)
    summarize(screen, run, run.read(), fold(run, "online"))
    assert "output tokens/s: 12,345 " in screen.file.getvalue()


@pytest.mark.parametrize("bulk", [{"generate_tokens": 0}, {"generate_s": 0.0}])
def test_a_run_that_was_all_canary_has_none(
    make_run: MakeRun, runs: RunCommand, bulk: dict[str, float]
) -> None:
    run = make_run(MIXED, **bulk)
    assert run.read().tokens_per_s is None
    assert json.loads(runs("list", "--json").out)["tokens_per_s"] is None
    assert "- output tokens/s" in runs("show", "1f6cad1c").out
