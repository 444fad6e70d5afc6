"""What is known of the server that answers: into the launch's folder and into provenance.

Best effort throughout: what a server or its environment does not tell is left out, and no run
fails for it. Secrets were taken out by the engine (answers) and by the launch (argv).
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runner.config import Server
from runner.engines.base import EngineInfo
from runner.engines.pool import EndpointStats
from runner.rundir import replace_file

TIMEOUT_S = 60.0
INFO_NAME = "server_info.json"
PACKAGES_CODE = (
    "import importlib.metadata as m, json, sys\n"
    "names = sorted({(d.metadata['Name'] or '').lower(): d.version for d in m.distributions()}"
    ".items())\n"
    "json.dump({'python': sys.version.split()[0], 'packages': dict(names)}, sys.stdout)"
)
GPU_FIELDS = ("index", "name", "uuid", "memory.total", "driver_version")


def describe(config: Server, infos: dict[str, EngineInfo], launch_dir: Path) -> dict[str, Any]:
    """Everything about the server as one JSON object. Runs two short programs, unless another run
    of this process did so for the same launch."""
    first = next(iter(infos.values()), None)
    launched = _read_json(launch_dir / "argv.json")
    before = _told_before(launched)
    return {
        "name": config.name,
        "kind": config.kind.value,
        "engine": config.engine.value,
        "version": first.version if first is not None else "",
        "launched": launched,
        "environment": before["environment"] if before else _environment_of(config),
        "gpus": before["gpus"] if before else gpus(),
        "endpoints": {name: msgspec.to_builtins(info) for name, info in infos.items()},
    }


def _told_before(launched: dict[str, Any]) -> dict[str, Any]:
    """What was described of a launch that an earlier run began; {} for one of this run."""
    log = launched.get("log") if launched.get("shared") else ""
    return _read_json(Path(log).parent / INFO_NAME) if log else {}


def _environment_of(config: Server) -> dict[str, Any]:
    return environment(config.python) if config.python else {}


def keep(about: dict[str, Any], *, launch_dir: Path, provenance: list[Path]) -> None:
    """Write it beside the launch, and (without the raw answers) into provenance files."""
    replace_file(launch_dir / INFO_NAME, _pretty(about))
    short = {
        **about,
        "endpoints": {
            name: {key: value for key, value in info.items() if key != "raw"}
            for name, info in about["endpoints"].items()
        },
    }
    for path in provenance:
        replace_file(path, _pretty({**_read_json(path), "server": short}))


def environment(python: str) -> dict[str, Any]:
    """Python version and packages of the interpreter that runs the server."""
    try:
        return dict(json.loads(command_output([python, "-c", PACKAGES_CODE])))
    except ValueError:
        return {}


def gpus() -> list[dict[str, str]]:
    """The machine's NVIDIA GPUs as nvidia-smi tells them; [] where there are none."""
    query = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader"]
    rows = [line.split(", ") for line in command_output(query).splitlines()]
    return [dict(zip(GPU_FIELDS, row, strict=True)) for row in rows if len(row) == len(GPU_FIELDS)]


def endpoint_table(stats: list[EndpointStats]) -> bytes:
    """Per-endpoint statistics for the attempt's endpoints.json."""
    return msgspec.json.format(msgspec.json.encode(stats), indent=2)


def endpoint_lines(stats: list[EndpointStats]) -> list[str]:
    """What to tell of several endpoints at the end."""
    return [
        f"{one.endpoint}: {one.answered:,} answers, {one.output_tokens:,} tokens, "
        f"{sum(one.faults.values()):,} faults, set aside {one.set_aside} times"
        for one in stats
    ]


def command_output(argv: Sequence[str]) -> str:
    """Standard output of a short program that ended well; "" otherwise."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def _pretty(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
