"""The command line as a whole, and the program as a process of its own."""

import os
import subprocess
import sys

import pytest

import runner.runs
from runner.runs.screen import is_plain, open_screen
from tests.runs.conftest import MIXED, Spec

NAMES = [
    *("list", "show", "watch", "decode", "report", "compare", "verify", "validate", "parity"),
    *("export", "requeue", "repair", "merge", "stop", "sync"),
]


def process(tmp_path, *argv, **environment):
    return subprocess.run(
        [sys.executable, "-m", "runner.runs", *argv],
        env=os.environ | {"RAWTOK_OUTPUTS": str(tmp_path / "outputs"), **environment},
        capture_output=True,
        check=False,
    )


def test_the_commands_are_these():
    assert list(runner.runs.COMMANDS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_help_has_an_example_and_fits_80_columns(runs, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    ran = runs(name, "--help")
    assert ran.code == 0
    assert f"python -m runner.runs {name}" in ran.out
    text = runner.runs.COMMANDS[name].text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        "latest validators=strict ~validators.text --set strict",
        "latest --set strict validators=strict ~validators.text",
        "latest validators=strict --set strict ~validators.text",
    ],
)
def test_overrides_of_validate_stand_anywhere_behind_the_run(words):
    found = runner.runs.parse(["validate", *words.split()])
    assert (found.run, found.set) == ("latest", "strict")
    assert found.overrides == ["validators=strict", "~validators.text"]


@pytest.mark.parametrize(
    "argv",
    [[], ["nope"], ["show"], ["list", "--nope"], ["show", "latest", "x=1"],
     ["validate", "latest", "--nope", "x=1"], ["merge", "latest", "--out", "x"],
     ["show", "latest", "--comp", "x"]],
)  # fmt: skip
def test_a_wrong_command_exits_2(argv, capsys):
    with pytest.raises(SystemExit) as end:
        runner.runs.main(argv)
    assert end.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_errors_go_to_stderr_with_their_next_step(runs):
    ran = runs("show", "nope")
    assert ran.out == ""
    assert ran.err.startswith("error: No run matches.")
    assert "RAWTOK_OUTPUTS" in ran.err


def test_a_process_has_the_same_exit_code(tmp_path):
    assert process(tmp_path, "show", "nope").returncode == 2


def test_a_terminal_that_knows_only_ascii_gets_escapes(make_run, tmp_path):
    make_run([Spec(0)], reason="你好")
    ran = process(tmp_path, "show", "latest", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    assert b"\\u4f60\\u597d" in ran.stdout


def test_head_closing_the_pipe_is_no_failure(make_run, tmp_path):
    run = make_run([])
    for number in range(300):
        other = run.path.with_name(f"copy-{number}")
        other.mkdir()
        (other / "run.json").write_bytes(run.run_json.read_bytes())
    command = f"{sys.executable} -m runner.runs list --json | head -1"
    environment = os.environ | {"RAWTOK_OUTPUTS": str(tmp_path / "outputs")}
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, check=False
    )
    assert ran.stderr == b""
    assert ran.returncode == 0


def test_a_folder_that_may_not_be_read_is_an_error_and_no_traceback(runs, make_run, monkeypatch):
    make_run(MIXED)

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "samples")

    monkeypatch.setattr("runner.runs.show.read_facts", lambda *_, **__: refuse())
    ran = runs("show", "latest")
    assert ran.code == 1
    assert "Permission denied" in ran.err


def test_no_color_and_no_terminal_are_plain(monkeypatch):
    assert is_plain(open_screen())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not is_plain(open_screen())
    monkeypatch.setenv("NO_COLOR", "1")
    assert is_plain(open_screen())


def test_markup_in_data_is_not_interpreted(make_run, runs):
    make_run([Spec(0)], names={"model": "[red]x[/red]", "category": ":smile:"})
    assert "[red]x[/red]/:smile:" in runs("list").out
