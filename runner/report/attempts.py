"""The attempts of a run: when, how each ended, its servers, and what changed between them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from runner.config import flatten
from runner.records import Record
from runner.report.series import Stint, Timeline
from runner.rundir import RunDir
from runner.tracking.masking import mask_text, mask_value
from runner.yamltext import YAMLError, load_yaml

ABSENT = "-"
"""Shown for a key that one side does not have."""
ALWAYS_DIFFERENT = ("command", "server.launched", "server.endpoints")
"""Parts of provenance that differ without meaning anything: the command is shown, and ports and
seeds stand with the launch."""


class Change(Record, frozen=True, kw_only=True):
    """One key whose value differs from the attempt before."""

    key: str
    before: str
    after: str


class Launch(Record, frozen=True, kw_only=True):
    """One start of a server."""

    number: int
    started_at: float = 0.0
    command: str = ""
    seed: str = ""
    lowered: str = ""
    """What the ladder lowered after a death of memory."""


class AttemptFacts(Record, frozen=True, kw_only=True):
    """One attempt. `started_at` is 0 for one that tracking never saw."""

    number: int
    started_at: float = 0.0
    worked_s: float = 0.0
    status: str = ""
    tokens: int = 0
    overrides: str = ""
    changes: list[Change] = []
    launches: list[Launch] = []
    log_tail: str = ""


def read_attempts(run: RunDir, timeline: Timeline) -> list[AttemptFacts]:
    """All attempts in order, as far as their files tell."""
    stints = {stint.attempt: stint for stint in timeline.stints}
    found: list[AttemptFacts] = []
    before: dict[str, str] = {}
    for folder in sorted(path for path in run.attempts.glob("[0-9]*") if path.is_dir()):
        settings = settings_of(folder)
        changes = list(changes_between(before, settings)) if before and settings else []
        found.append(_attempt(folder, stints.get(int(folder.name)), changes))
        before = settings or before
    return found


def _attempt(folder: Path, stint: Stint | None, changes: list[Change]) -> AttemptFacts:
    facts = AttemptFacts(
        number=int(folder.name),
        overrides=mask_text(" ".join(_text(folder / "overrides.txt").split())),
        changes=changes,
        launches=list(_launches(folder / "launches")),
        log_tail=tail(folder / "log.txt"),
    )
    if stint is None:
        return facts
    return msgspec.structs.replace(
        facts,
        started_at=stint.started_at,
        worked_s=stint.worked_s,
        status=stint.status.value,
        tokens=stint.tokens,
    )


def settings_of(folder: Path) -> dict[str, str]:
    """The config and the provenance of an attempt as flat texts, without secrets."""
    flat = dict(flat_yaml(folder / "config.yaml"))
    for path, value in flatten(read_json(folder / "provenance.json")):
        if not path.startswith(ALWAYS_DIFFERENT):
            flat[path] = text_of(path, value)
    return flat


def flat_yaml(path: Path) -> Iterator[tuple[str, str]]:
    """Every leaf of a YAML file that holds something, as (dotted key, text); nothing for a file
    that can't be read. Null is left out: a program that did not have the key yet meant the same."""
    try:
        plain = load_yaml(_text(path))
    except YAMLError:
        return
    if isinstance(plain, Mapping):
        yield from ((k, text_of(k, v)) for k, v in flatten(plain) if v not in (None, "", [], {}))


def text_of(key: str, value: Any) -> str:
    """A leaf as it may be shown."""
    if value is None or isinstance(value, bool | int | float | str):
        told = mask_value(key, value)
        return told if isinstance(told, str) else msgspec.json.encode(told).decode()
    return mask_text(msgspec.json.encode(value).decode())


def changes_between(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """The keys that differ, in their order. A part that one side did not get to (a run that died
    before its server told of itself) is no change."""
    heads = {key.partition(".")[0] for key in before} & {key.partition(".")[0] for key in after}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old != new and key.partition(".")[0] in heads:
            yield Change(key=key, before=old, after=new)


def _launches(folder: Path) -> Iterator[Launch]:
    for path in sorted(folder.glob("[0-9]*")):
        told = read_json(path / "argv.json")
        argv = told.get("argv", [])
        started = told.get("started_at", 0.0)
        yield Launch(
            number=int(path.name),
            started_at=float(started) if isinstance(started, int | float) else 0.0,
            command=mask_text(" ".join(map(str, argv))) if isinstance(argv, list) else "",
            seed=str(told.get("seed", "")),
            lowered=", ".join(f"{k}={v}" for k, v in _mapping(told.get("lowered")).items()),
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def last_server_log(run: RunDir) -> Path | None:
    """The log of the server that was started last; one that is shared by the jobs of a sweep lies
    with the job that started it."""
    launches = sorted(run.attempts.glob("[0-9]*/launches/[0-9]*"))
    for folder in reversed(launches):
        elsewhere = str(read_json(folder / "argv.json").get("log", ""))
        for path in (folder / "server.log", Path(elsewhere)):
            if path.is_file():
                return path
    return None


def tail(path: Path, *, size: int = 6_000) -> str:
    """The last whole lines of a text file, at most `size` bytes of it; "" where there is none."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, 2) - size)
            file.seek(start)
            text = file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""
    whole = text.partition("\n")[2] if start else text
    return mask_text(whole)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; {} for a file that is not there or not whole."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
