"""Whether the installed SGLang knows the flags of the config, asked of its own `--help`.

Answered before anything is started, since the same mistake costs minutes of loading otherwise. The
answer is kept by interpreter and version, so that it costs a fraction of a second the next time.
Where help cannot be had (a broken environment, a command that is no SGLang) nothing is refused: the
launch itself says what is wrong.
"""

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from runner.config import Server, ServerKind
from runner.errors import ConfigError
from runner.servers.ladder import spelled

OPTION_LINE = re.compile(r"^ {1,6}(-.*?)(?:\s{2,}|$)")
OPTION = re.compile(r"(?<![\w-])--([A-Za-z0-9][\w.-]*)")
HELP_TIMEOUT_S = 300.0
"""Importing SGLang takes 10 s, minutes on a cold network file system."""
SIGN_OF_SGLANG = "model-path"
VERSION_CODE = "import importlib.metadata as m; print(m.version('sglang'), m.__file__)"


def known_flags(help_text: str) -> list[str]:
    """The long options that an argparse help declares, without their dashes, in its order."""
    found: dict[str, None] = {}
    for line in help_text.splitlines():
        declared = OPTION_LINE.match(line)
        for name in OPTION.findall(declared[1]) if declared else ():
            found.setdefault(name)
    return list(found)


def unknown_flags(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """The names that are not known, each with the closest known one ("" when none is close).

    argparse takes the beginning of exactly one option for it (`--tp` is short for `--tp-size`).
    """
    there = list(known)

    def is_known(name: str) -> bool:
        return name in there or sum(option.startswith(name) for option in there) == 1

    missing = [name for name in names if not is_known(spelled(name))]
    close = {n: difflib.get_close_matches(spelled(n), there, n=1, cutoff=0.5) for n in missing}
    return {name: (matches[0] if matches else "") for name, matches in close.items()}


def check_flags(config: Server) -> bool:
    """Refuse flags that the server's `--help` does not name. False: help could not be had.

    Raises:
        ConfigError: an unknown flag in `server.flags` or in a rung of `server.restart.ladder`.
    """
    names = [
        *(
            (f"server.flags.{name}", name)
            for name, value in config.flags.items()
            if value is not None and value is not False  # left out of argv
        ),
        *(
            (f"server.restart.ladder[{index}].{name}", name)
            for index, rung in enumerate(config.restart.ladder)
            for name in rung
        ),
    ]
    if config.kind is not ServerKind.sglang or not names:
        return True
    known = installed_flags(config)
    if SIGN_OF_SGLANG not in known:
        return False
    unknown = unknown_flags((name for _, name in names), known)
    for where, name in names:
        if name in unknown:
            raise ConfigError(
                f"The installed SGLang has no flag --{spelled(name)}.",
                where=where,
                found=name,
                allowed="what its --help lists"
                + (f" (did you mean {unknown[name]}?)" if unknown[name] else ""),
                next_step=f"{' '.join(launcher(config))} --help",
            )
    return True


def launcher(config: Server) -> list[str]:
    """The words before the flags, as `argv.sglang_command` uses them."""
    return config.command or [config.python or sys.executable, "-m", "sglang.launch_server"]


def installed_flags(config: Server) -> list[str]:
    """The flags of the server that this config starts; [] when it cannot be asked."""
    env = {**os.environ, **config.env}
    kept = None if config.command else _cache_file(config, env)
    if kept is not None and kept.is_file():
        try:
            return list(json.loads(kept.read_text()))
        except ValueError:  # half-written by a full disk: asked again
            pass
    known = known_flags(_output([*launcher(config), "--help"], env))
    if kept is not None and SIGN_OF_SGLANG in known:
        _keep(kept, known)
    return known


def _cache_file(config: Server, env: dict[str, str]) -> Path | None:
    """None when the interpreter has no SGLang, so that the mended one is asked."""
    python = config.python or sys.executable
    version = _output([python, "-c", VERSION_CODE], env).strip()
    if not version:
        return None
    key = hashlib.sha256(f"{Path(python).absolute()}\0{version}".encode()).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "rawtok" / f"sglang-flags-{key}.json"


def _keep(path: Path, known: list[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(known))
        partial.replace(path)
    except OSError:  # a home without write access only means asking again
        return


def _output(argv: Sequence[str], env: dict[str, str]) -> str:
    """Standard output of a command that ended well; "" otherwise."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HELP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
