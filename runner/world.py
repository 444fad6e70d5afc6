"""The world of a run: what must not change under it though no config key of its identity says so.

    template, tokenizer, weights, date   of the model                        (checked at once)
    flag.NAME                            flags that change numerics, of a server that we start
    server.version, server.weight_version, server.NAME
                                         what the server that answers says   (checked before it is
                                                                              asked for a sample)

A run keeps the world that it began with in run.json. At each attempt what is known then is compared
with it, name by name: what is not told, or was not told then, is not compared. A change is refused
with a table, unless `resume.accept` names it; then it is recorded in the attempt and becomes the
world that later attempts are compared with.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from runner.config import Server, ServerKind
from runner.engines.base import EngineInfo
from runner.errors import ConfigError
from runner.records import Record

World = Mapping[str, str]
"""Name -> value: a hash, a version or a flag's text; "" for a flag that is not set."""

NUMERICS = ("dtype", "quantization", "kv-cache-dtype", "attention-backend")
"""Flags of SGLang that change which tokens come out, beside all that begin with SPECULATIVE."""
SPECULATIVE = "speculative-"
WEIGHTS = "server.weight_version"
_AND = " and "
SHOWN_CHARS = 44
"""A hash is cut to 12 characters in the table, another value to this."""


class Change(Record, frozen=True, kw_only=True):
    """One thing that is not as it was."""

    name: str
    was: str
    now: str


def changes(before: World, now: World) -> list[Change]:
    """What is told in both and differs."""
    return [
        Change(name=name, was=before[name], now=value)
        for name, value in now.items()
        if name in before and before[name] != value
    ]


def check_world(before: World, now: World, accepted: Iterable[str]) -> list[Change]:
    """The accepted changes.

    Raises:
        ConfigError: something else changed too; with a table of what was and what is. Or several
            servers tell different weights.
    """
    found, names = changes(before, now), list(accepted)
    _check_one_weights(now, names)
    refused = [one for one in found if not any(fnmatchcase(one.name, name) for name in names)]
    if refused:
        listed = ",".join(one.name for one in refused)
        raise ConfigError(
            "The world changed under this run: going on would mix two kinds of data.\n"
            + table(refused),
            where="resume.accept",
            found="nothing accepted" if not names else ", ".join(names),
            next_step=f"put it back as it was; or task_name=NAME begins another run; or "
            f"'resume.accept=[{listed}]' goes on and records it",
        )
    return found


def table(rows: Iterable[Change]) -> str:
    """What was and what is, a line each."""
    cells = [("what", "was", "is"), *((r.name, _shown(r.was), _shown(r.now)) for r in rows)]
    first, second = (max(len(row[column]) for row in cells) for column in (0, 1))
    return "\n".join(f"  {a:<{first}}  {b:<{second}}  {c}" for a, b, c in cells)


def _shown(value: str) -> str:
    if re.fullmatch(r"[0-9a-f]{32,64}", value):
        return value[:12]
    text = value or "(not set)"
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def flags_world(server: Server) -> dict[str, str]:
    """The numerics of a server that this attempt will start; {} for one that somebody else did."""
    if server.kind is ServerKind.external:
        return {}
    flags = {_plain(name): value for name, value in server.flags.items()}
    return {f"flag.{name}": text for name, text in _numerics(flags).items()}


def server_world(infos: Iterable[EngineInfo]) -> dict[str, str]:
    """Version and numerics as the servers tell them. Several that differ are told as such."""
    told: dict[str, set[str]] = {}
    for info in infos:
        own = {"version": info.version, "weight_version": info.weight_version}
        one = {name: value for name, value in own.items() if value}
        for name, value in {**one, **_told_numerics(info.raw)}.items():
            told.setdefault(f"server.{name}", set()).add(value)
    return {name: _AND.join(sorted(values)) for name, values in told.items()}


def _check_one_weights(now: World, accepted: Iterable[str]) -> None:
    told = now.get(WEIGHTS, "")
    if _AND in told and not any(fnmatchcase(WEIGHTS, name) for name in accepted):
        raise ConfigError(
            "The servers do not serve the same weights: a run would mix two kinds of data.",
            where="server.urls",
            found=told,
            allowed="one weight version",
            next_step=f"'resume.accept=[{WEIGHTS}]' takes them as one",
        )


def weight_versions(world: World, accepted: Iterable[Change] = ()) -> frozenset[str]:
    """The weights that samples of a run may name: those of its world, and those of earlier worlds
    that were given up with leave. Empty: the server tells none."""
    told = [world.get(WEIGHTS, ""), *(one.was for one in accepted if one.name == WEIGHTS)]
    return frozenset(name for text in told for name in text.split(_AND) if name)


def _told_numerics(raw: Mapping[str, Any]) -> dict[str, str]:
    """Numerics among the answers of a server: keys of an answer, or of its launch command."""
    found: dict[str, Any] = {}
    for answer in raw.values():
        if isinstance(answer, dict):
            found |= _parse(str(answer.get("launch_command") or ""))
            found |= {_plain(key): value for key, value in answer.items() if value is not None}
    names = {name for name in found if name in NUMERICS or name.startswith(SPECULATIVE)}
    return {k: v for k, v in _numerics(found).items() if k in names or (k == "speculative" and v)}


def _numerics(flags: Mapping[str, Any]) -> dict[str, str]:
    """The flags that matter, as text; all `speculative-*` ones together under one name."""
    guessing = {k: _text(v) for k, v in sorted(flags.items()) if k.startswith(SPECULATIVE)}
    numerics = {name: _text(flags.get(name)) for name in NUMERICS}
    return numerics | {"speculative": " ".join(f"{k}={v}" for k, v in guessing.items() if v)}


def _parse(command: str) -> dict[str, Any]:
    """`--name value` and `--name=value` of a command line."""
    found = re.finditer(r"--([a-z][a-z0-9-]*)[= ]([^\s-]\S*)", command)
    return {_plain(match[1]): match[2] for match in found}


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _text(value: Any) -> str:
    if value is None or value is False:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
