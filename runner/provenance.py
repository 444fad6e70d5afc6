"""Where a run's data came from: code, packages, machine, model, server. Read by people later.

Everything is best effort: what cannot be found out is left out, and no run fails for it.
"""

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from runner.config import Config, to_plain
from runner.config.secrets import shown_overrides
from runner.tracking.masking import mask_value
from runner.yamltext import dump_yaml

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


def settings_yaml(config: Config) -> str:
    """The resolved config as YAML without secrets: for the run directory, which is copied, shared
    and sent to MLflow. A password in an address, and the value of a key that names a secret, is
    `***`."""
    return dump_yaml(_masked(to_plain(config)))


def _masked(value: Any, path: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner, f"{path}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, path) for inner in value]
    return mask_value(path, value) if isinstance(value, str | int | float) else value


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


@cache
def git_state(folder: Path) -> dict[str, Any]:
    """Commit and whether the tree differs from it; {} outside a checkout or without git. Asked once
    in a process, whose code does not change any more."""
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
