"""Rendering ahead, in this process and in workers of a slow tokenizer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runner.errors import MachineError
from runner.prompts.shape import Conversation
from runner.render import RenderFault
from runner.rendering import (
    AHEAD_PER_WORKER,
    Rendered,
    Renderer,
    RenderPool,
    RenderSettings,
    in_turn,
    worker_count,
)
from tests.prompts import toys

ROOT = Path(__file__).resolve().parents[2]


def settings_of(folder: Path, policy: str = "escape") -> RenderSettings:
    return RenderSettings(
        source=str(folder),
        is_folder=True,
        revision=None,
        trust_remote_code=True,
        date="2026-01-01",
        template_kwargs={},
        policy=policy,
    )


def prompts(count: int) -> list[Conversation]:
    texts = [f"question {i}" if i % 3 else f"stop <|im_end|> {i}" for i in range(count)]
    return [Conversation(messages=[{"role": "user", "content": text}]) for text in texts]


@pytest.fixture
def kimi(toy_folders: dict[str, Path]) -> Path:
    return toy_folders["kimi"]


def test_which_tokenizers_get_workers(toy_folders: dict[str, Path]) -> None:
    assert not toys.load(toy_folders["kimi"]).is_fast
    assert toys.load(toy_folders["qwen"]).is_fast
    assert worker_count(None, is_fast=True) == 0
    assert worker_count(None, is_fast=False) >= 1
    assert worker_count(3, is_fast=True) == 3


def test_workers_give_the_same_in_the_same_order(kimi: Path) -> None:
    here = Renderer(toys.load(kimi), settings_of(kimi))
    pool = RenderPool(settings_of(kimi), 2)
    try:
        found = list(pool.ahead(prompts(40)))
    finally:
        pool.close()
    assert found == list(in_turn(here, prompts(40)))
    assert sum(r.escaped for r in found if isinstance(r, Rendered)) == 14


def test_a_fault_comes_back_in_its_place_and_reading_ahead_is_bounded(kimi: Path) -> None:
    taken = 0

    def counted() -> Iterator[Conversation]:
        nonlocal taken
        for prompt in prompts(100):
            taken += 1
            yield prompt

    pool = RenderPool(settings_of(kimi, "refuse"), 1)
    try:
        ahead = pool.ahead(counted())
        first, second = next(ahead), next(ahead)
        assert taken <= AHEAD_PER_WORKER + 2
        ahead.close()  # type: ignore[attr-defined]
    finally:
        pool.close()
    assert isinstance(first, RenderFault)
    assert first.reason == "special_token_text"
    assert isinstance(second, Rendered)


def test_a_worker_that_is_killed_stops_the_run_in_words(kimi: Path) -> None:
    pool = RenderPool(settings_of(kimi), 1)
    try:
        ahead = pool.ahead(prompts(1000))
        next(ahead)
        (worker,) = pool._pool._processes.values()
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(MachineError, match=r"prompts\.workers"):
            list(ahead)
    finally:
        pool.close()


PARENT = """
import sys, time
from pathlib import Path
from tests.prompts.test_rendering import settings_of, prompts
from runner.rendering import RenderPool
if __name__ == "__main__":
    pool = RenderPool(settings_of(Path(sys.argv[1])), 2)
    next(pool.ahead(prompts(20)))
    print("ready", flush=True)
    time.sleep(600)
"""


def test_workers_end_with_a_parent_that_was_killed(kimi: Path, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(kimi)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert len(workers) >= 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(w.is_running() and w.status() != "zombie" for w in workers):
        assert time.monotonic() < deadline, "rendering workers outlived their parent"
        time.sleep(0.1)
