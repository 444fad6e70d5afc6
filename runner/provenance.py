"""Where a run's data came from: code, packages, machine, model, server. Read by people later.

Everything is best effort: what cannot be found out is left out, and no run fails for it.
"""

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from runner.config.secrets import shown_overrides

PACKAGES = (
    "rawtok",
    "hydra-core",
    "omegaconf",
    "mlflow",
    "transformers",
    "tokenizers",
    "zstandard",
    "aiohttp",
    "orjson",
    "msgspec",
    "numpy",
    "xllamacpp",
)


def collect() -> dict[str, Any]:
    """Versions, git state and machine of this process."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "packages": _versions(),
        "git": git_state(Path(__file__).resolve().parent.parent),
        "command": shown_overrides(sys.argv),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any]:
    """Commit and whether the tree differs from it; {} outside a checkout or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    return {
        "commit": commit,
        "branch": _git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
    }


def _git(folder: Path, *arguments: str) -> str:
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - git from PATH is meant
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
