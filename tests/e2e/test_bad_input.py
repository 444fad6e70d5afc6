"""Bad input: exit 2 at once, no traceback, no run directory, and a message that helps."""

import contextlib
import io
import signal
import sys
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from runner import cli
from tests.e2e.conftest import Outputs

CASES = {
    "sampling.temprature=1": ("temprature", "temperature"),
    "+sampling.foo=1": ("sampling.foo", "top_p"),
    "sampling.temperature=abc": ("sampling.temperature", "abc", "0 (greedy)"),
    "category.count=abc": ("category.count", "abc", "1 or more"),
    "seed=abc": ("seed", "abc", "whole number"),
    "category.parts.B1.count=3": ("B1", "B4"),
    "B4": ("B4", "category=B4"),
    "sampling.temperature=-1": ("sampling.temperature", "-1", "0 (greedy)"),
    "sampling.top_p=1.5": ("sampling.top_p", "1.5", "at most 1"),
    "sampling.max_new_tokens=0": ("sampling.max_new_tokens", "1 or more"),
    "sampling.max_new_tokens=2048": ("sampling.max_new_tokens", "2048", "context_length"),
    "client.concurrency=0": ("client.concurrency", "1 or more"),
    "category.count=-3": ("category.count", "-3", "1 or more"),
    "category=B9": ("B9", "B1 B2"),
    "categry=B1": ("categry", "category"),
    "model.default_mode=silent": ("silent", "instant, thinking"),
    "source=file": ("source.path", "source.path="),
    "server=external": ("server.urls", "server.urls="),
    "task_name=???": ("task_name",),
    "task_name=a/b": ("task_name", "a/b"),
    "validators.finish._target_=validators.finish.Nothing": ("validators.finish", "Nothing"),
    "category.parts.B4.expected.rates.no_clsoe=0": ("rates.no_clsoe", "no_close"),
    "category.parts.B4.expected.rates.no_close=2": ("rates.no_close", "2", "0 to 1"),
    "prompts.stop_on=[over_contxt]": ("prompts.stop_on", "over_context"),
    "prompts.over_context=cut": ("over_context", "clip"),
    "gates={nonsense: '<= 1'}": ("gates.nonsense", "truncated"),
    "model.path=/no/such/folder": ("model.path", "/no/such/folder"),
    "model.gguf=other.gguf": ("model.gguf", "tiny_reasoner.gguf"),
    "category.parts.B4.bundled.file=none.jsonl": ("none.jsonl",),
    "x=[": ("x=[",),
}


def main(*arguments: str) -> tuple[int, str]:
    """`python -m runner ARGUMENTS` in this process: its exit code and all that it printed."""
    screen = io.StringIO()
    before = sys.argv
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    sys.argv = ["rawtok", *arguments]
    GlobalHydra.instance().clear()
    try:
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            cli.main()
    except SystemExit as end:
        return int(end.code or 0), screen.getvalue()
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
        GlobalHydra.instance().clear()
    raise AssertionError("main always exits")


@pytest.mark.parametrize("override", CASES)
def test_bad_input_is_exit_2_with_a_message_that_helps(override: str, tmp_path: Path) -> None:
    code, text = main(override, f"paths.outputs={tmp_path / 'outputs'}")
    assert code == 2, text
    assert "Traceback" not in text
    for part in CASES[override]:
        assert part in text, text
    runs = [p for p in tmp_path.glob("outputs/*") if p.name != ".invocations"]
    assert runs == [], "nothing was begun"


def test_a_bad_key_in_a_sweep_starts_no_job(tmp_path: Path) -> None:
    code, text = main("-m", "sampling.temperature=0,-1", f"paths.outputs={tmp_path / 'o'}", "x=1")
    assert code == 2, text


def test_help_teaches(tmp_path: Path) -> None:
    code, text = main("--help")
    assert code == 0
    for part in ("python -m runner category=B4 sampling=greedy", "runner.runs", "Exit codes"):
        assert part in text


def test_an_outputs_folder_that_cannot_be_made_is_our_side(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, text = main(f"paths.outputs={tmp_path / 'file' / 'outputs'}")
    assert code == 1, text
    assert "Traceback" not in text
    assert str(tmp_path / "file") in text


@pytest.mark.parametrize(
    ("line", "told"),
    [('{"a": 1, "b": 3}', "found   columns a, b"), ("{not json", "not_json: row 0, byte 0")],
)
def test_rows_that_nothing_can_read_start_no_server(line: str, told: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(f"{line}\n")
    outputs = Outputs(tmp_path / "outputs")
    ended = outputs.run("category=own", "source=file", f"source.path={rows}")
    assert ended.code == 2
    assert told in ended.text
    assert "starting server" not in ended.text
    assert not outputs.runs
