"""`python -m runner.serve` and `python -m runner.doctor` as a user starts them."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runner.doctor import Check, Result, environment_check, exit_code, gpu_check, limits_check
from runner.engines.base import EngineInfo
from runner.serve import attach_words
from tests.e2e.conftest import ROOT, Outputs, wait_for
from tests.test_presets import config


def test_a_served_model_answers_runs_with_the_printed_words(
    outputs: Outputs, tmp_path: Path
) -> None:
    log = tmp_path / "serve.txt"
    command = [sys.executable, "-m", "runner.serve", f"paths.outputs={outputs.path}"]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
    try:
        wait_for(lambda: process.poll() is not None or "server.urls" in log.read_text())
        line = next(x for x in log.read_text().splitlines() if "python -m runner " in x)
        words = [word.strip("'") for word in line.split()[3:]]
        words = [word for word in words if not word.startswith("paths.")]
        for mode in ("thinking", "instant"):
            done = outputs.run(*words, "category.count=2", f"mode={mode}")
            assert done.code == 0, done.text
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 130
    assert not [child for child in children if child.is_running()]
    attached = outputs.run("category.count=2")
    assert "already done" in attached.text  # the same run: how it was served does not matter


def test_the_attaching_words_keep_what_was_said_of_the_model() -> None:
    given = ["model=qwen3", "server=sglang_tp8", "+server.flags.tp=4", "seed=3", "--multirun"]
    words = attach_words(given, engine="sglang", url="http://h:1")
    assert words == [
        *("model=qwen3", "seed=3", "server=external"),
        *("server.engine=sglang", "server.urls=[http://h:1]"),
    ]


def test_an_external_server_is_not_served() -> None:
    command = [sys.executable, "-m", "runner.serve", "server=external", "server.urls=[http://h:1]"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "served by somebody else" in done.stderr


def test_the_doctor_passes_the_default(outputs: Outputs) -> None:
    command = [sys.executable, "-m", "runner.doctor", f"paths.outputs={outputs.path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[:2] for line in done.stdout.splitlines() if line]
    assert ["passed", "tokenizer"] in lines
    assert ["passed", "server"] in lines
    assert ["unknown", "golden"] in lines  # llama.cpp echoes no prompt
    assert done.stdout.count("passed   mode") == 2
    assert "0 failed" in done.stdout


def test_the_doctor_names_a_missing_environment(outputs: Outputs) -> None:
    command = [
        *(sys.executable, "-m", "runner.doctor", "server=sglang", "server.python=/no/python"),
        f"paths.outputs={outputs.path}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "failed   environment  /no/python does not run" in done.stdout
    assert "-> check server.python" in done.stdout


def test_an_environment_without_sglang_fails() -> None:
    assert environment_check("p", {"python": "3.11.1", "packages": {}}).result is Result.FAILED
    about = {"python": "3.11.1", "packages": {"sglang": "0.5.23"}}
    assert environment_check("p", about).result is Result.PASSED


GPU = {"name": "NVIDIA H200", "memory.total": "143771 MiB"}


@pytest.mark.parametrize(
    ("flags", "found", "result"),
    [
        ({"tp": 8}, [GPU] * 8, Result.PASSED),
        ({"tp-size": 8}, [GPU] * 4, Result.FAILED),
        ({"tp": 2, "dp": 4}, [GPU] * 8, Result.PASSED),
        ({"tp": 2, "dp_size": 8}, [GPU] * 8, Result.FAILED),
        ({}, [GPU], Result.PASSED),
        ({}, [], Result.UNKNOWN),
        ({"device": "cpu"}, [], Result.PASSED),
    ],
)
def test_gpus_are_counted_against_the_flags(
    flags: dict[str, object], found: list[dict[str, str]], result: Result
) -> None:
    assert gpu_check(flags, found).result is result


@pytest.mark.parametrize(
    ("told", "result"), [(-1, Result.UNKNOWN), (2048, Result.PASSED), (512, Result.FAILED)]
)
def test_the_servers_context_is_compared(told: int, result: Result) -> None:
    info = EngineInfo(kind="sglang", context_length=told)
    assert limits_check(config(), info).result is result


def test_a_wrong_answer_is_exit_3() -> None:
    failed = Check(name="x", result=Result.FAILED, found="")
    wrong = Check(name="y", result=Result.FAILED, found="", answers=True)
    assert exit_code([]) == 0
    assert exit_code([failed]) == 1
    assert exit_code([failed, wrong]) == 3
