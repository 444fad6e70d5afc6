"""One run, killed again and again at random moments, on disks that fill up and syncs that fail: at
the end every id is there exactly once, with the content of an undisturbed run."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Outputs, attach, prompt_file, wait_for

ROWS = 2000
FAULTY_DISK = ROOT / "tests" / "e2e" / "faulty_disk"
Fake = Callable[..., str]


@pytest.mark.timeout(1200)
def test_ten_kills_full_disks_and_failing_syncs_lose_and_double_nothing(
    outputs: Outputs, fake: Fake, tmp_path: Path
) -> None:
    disturb(outputs, fake, tmp_path, cycles=10, seed=11)


@pytest.mark.soak
@pytest.mark.timeout(7000)
def test_fifty_kills(outputs: Outputs, fake: Fake, tmp_path: Path) -> None:
    disturb(outputs, fake, tmp_path, cycles=50, seed=time.time_ns())


def disturb(outputs: Outputs, fake: Fake, tmp_path: Path, *, cycles: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = ["source=file", f"source.path={prompt_file(tmp_path / 'rows.jsonl', ROWS)}"]
    slow = 0.16 * cycles / 10  # so that the last cycle still finds something to do
    job = [*attach(fake(latency_s=slow)), *rows, "client.concurrency=16"]
    for cycle in range(cycles):
        if cycle % 5 == 2:
            full_disk(outputs, job, rng)
        elif cycle % 5 == 4:
            failing_syncs(outputs, job, rng)
        else:
            killed(outputs, job, rng.uniform(0.0, 1.2))
    finished = outputs.run(*attach(fake()), *rows, "client.concurrency=16", timeout_s=600)
    assert finished.code == 0, f"seed {seed}\n{finished.text}"
    assert f"planned {ROWS:,} = ok {ROWS:,}" in finished.text

    undisturbed = Outputs(tmp_path / "undisturbed")
    assert undisturbed.run(*attach(fake()), *rows, "client.concurrency=16", timeout_s=600).code == 0
    expected = {key: (s.input_ids, s.output_ids) for key, s in undisturbed.samples().items()}
    made = {key: (s.input_ids, s.output_ids) for key, s in outputs.samples().items()}
    assert made == expected, f"seed {seed}"
    assert len(made) == ROWS
    verified = outputs.tool("verify", "latest", "--full")
    assert verified.code == 0, verified.text


def killed(outputs: Outputs, job: list[str], after_s: float) -> None:
    before = written(outputs)
    process = outputs.start(*job)
    wait_for(lambda: process.poll() is not None or written(outputs) != before, timeout_s=120)
    time.sleep(after_s)
    with contextlib.suppress(ProcessLookupError):  # it had ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def written(outputs: Outputs) -> dict[str, int]:
    """The sizes of all shards of samples."""
    found = [path for run in outputs.runs for path in run.samples.glob("*.zst*")]
    return {path.name: path.stat().st_size for path in found if path.exists()}


def full_disk(outputs: Outputs, job: list[str], rng: random.Random) -> None:
    """No file may grow beyond a size that some write soon meets, in the middle."""
    opened = [size for name, size in written(outputs).items() if name.endswith(".part")]
    most = sum(opened) + rng.randint(8_000, 20_000)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    end_badly(outputs, job, preexec_fn=limit)


def failing_syncs(outputs: Outputs, job: list[str], rng: random.Random) -> None:
    path = os.pathsep.join([str(FAULTY_DISK), os.environ.get("PYTHONPATH", "")])
    count = str(rng.randint(3, 60))
    env = {**os.environ, "PYTHONPATH": path, "SYNCS_BEFORE_FAILURE": count}
    end_badly(outputs, job, env=env)


def end_badly(outputs: Outputs, job: list[str], **how: object) -> None:
    """Our side is why: exit 1 and a message, not a traceback. Or it got through after all."""
    done = subprocess.run(
        outputs.command(*job),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **how,
    )
    text = done.stdout + done.stderr
    assert done.returncode in (0, 1), text
    assert "Traceback" not in text
