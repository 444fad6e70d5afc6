"""A disk that fills up, at whatever byte of whatever file: saved, exit 1, it can go on."""

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Ended, Outputs, attach, prompt_file

ROWS = 150


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    return {}


def run_limited(outputs: Outputs, job: list[str], most_bytes: int) -> Ended:
    """The command with no file allowed to grow beyond `most_bytes`: EFBIG, as ENOSPC would be."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    done = subprocess.run(
        outputs.command(*job),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=limit,
    )
    return Ended.of(done)


@pytest.mark.parametrize("most_bytes", [200, 20_000, 110_001])
def test_a_file_that_cannot_grow_stops_the_run_and_the_same_command_continues(
    outputs: Outputs,
    fake: Callable[..., str],
    tmp_path: Path,
    undisturbed: dict[str, list[int]],
    most_bytes: int,
) -> None:
    rows = prompt_file(tmp_path / "rows.jsonl", ROWS)
    job = [
        *attach(fake(min_output=700, max_output=1000)),
        "source=file",
        f"source.path={rows}",
        "sampling.max_new_tokens=1024",
    ]
    stopped = run_limited(outputs, job, most_bytes)
    assert stopped.code == 1, stopped.text
    assert "EFBIG" in stopped.text or "File too large" in stopped.text
    assert "Traceback" not in stopped.text

    finished = outputs.run(*job)
    assert finished.code == 0, finished.text
    assert f"planned {ROWS} = ok {ROWS}" in finished.text
    made = {key: sample.output_ids for key, sample in outputs.samples().items()}
    assert made == (undisturbed or made)
    undisturbed.update(made)
    assert outputs.tool("verify", "latest", "--full").code == 0
