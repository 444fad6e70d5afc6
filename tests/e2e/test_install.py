"""The program as it is installed: a wheel with conf/ inside, a console script, any directory."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

SCRIPT = Path(sysconfig.get_path("scripts")) / "rawtok"


def ended(*command: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel, apart from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ended(
        *pip, "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "-w", str(folder), cwd=folder
    )
    assert build.returncode == 0, build.stderr
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    unpack = ended(*pip, "install", str(wheel), "--no-deps", "--target", str(site), cwd=folder)
    assert unpack.returncode == 0, unpack.stderr
    return site


def test_a_wheel_runs_from_any_directory_with_its_own_conf(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()  # a stray folder of that name must not win
    shown = ended(
        sys.executable, "-m", "runner", "--info", "searchpath",
        cwd=tmp_path, PYTHONPATH=str(installed),
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert str(installed / "runner" / "_conf") in shown.stdout
    job = ended(
        sys.executable, "-m", "runner", "prepare=only", "tracking=none", "category.count=2",
        cwd=tmp_path, PYTHONPATH=str(installed),
    )  # fmt: skip
    assert "planned 2 = ok 0" in job.stdout, job.stdout + job.stderr
    assert (tmp_path / "outputs").is_dir(), "outputs go where the command was given"


def test_the_console_script_works_from_any_directory(tmp_path: Path) -> None:
    shown = ended(str(SCRIPT), "--cfg", "job", "category=B1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "function calling" in shown.stdout


def test_the_console_script_completes_options(tmp_path: Path) -> None:
    line = "rawtok category="
    found = ended(
        str(SCRIPT), "-sc", "query=bash",
        cwd=tmp_path, COMP_LINE=line, COMP_POINT=str(len(line)),
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert {"category=B1", "category=B8", "category=all"} <= set(found.stdout.split())
