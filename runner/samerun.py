"""Which directory a config's run lives in, also after parts were added to its mix or taken out.

The digest names the directory of a run that begins. Parts of the mix may come and go under the same
run (they are class PLAN), and the digest holds what each part reads; so a config whose digest names
no directory yet is looked for among the runs of its task with the same readable name:

    the same run = equal identity but for `prompts`
                   + at least one part in common
                   + no part that reads something else under the same name

run.json keeps every part that the run ever had. So a part that was taken out finds its way back,
and one that comes back with other content is another run. Several such runs: the one that has the
most of the asked parts, then the one made first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from runner.config import Config, Partition
from runner.identity import digest_of, run_name

PROMPTS = "prompts"
Identity = Mapping[str, Any]


class _Known(msgspec.Struct):
    identity: dict[str, Any] = {}
    created_at: float = 0.0


def find_directory(task_folder: Path, config: Config, identity: Identity) -> Path:
    """Where this config's run is, or will be. Reads run.json files, writes nothing."""
    name = run_name(config, digest_of(identity))
    suffix = partition_suffix(config.partition)
    begun = task_folder / f"{name}{suffix}"
    if (begun / "run.json").is_file():
        return begun
    prefix = name.rpartition("-")[0]
    found = [
        (-_in_common(known.identity, identity), known.created_at, path)
        for path, known in _runs(task_folder, prefix, suffix)
        if is_same_run(known.identity, identity)
    ]
    return min(found)[2] if found else begun


def is_same_run(known: Identity, asked: Identity) -> bool:
    """See the module."""
    others = [{k: v for k, v in one.items() if k != PROMPTS} for one in (known, asked)]
    return others[0] == others[1] and _in_common(known, asked) > 0 and not _differ(known, asked)


def grown(known: Identity, asked: Identity) -> dict[str, Any]:
    """The identity of a run that goes on with this config: every part that it ever had."""
    return {**known, PROMPTS: {**known.get(PROMPTS, {}), **asked.get(PROMPTS, {})}}


def partition_suffix(partition: Partition) -> str:
    """What the directory of one part of a partitioned run ends with; "" for a whole run."""
    return f".p{partition.index}of{partition.of}" if partition.of > 1 else ""


def _runs(task_folder: Path, prefix: str, suffix: str) -> list[tuple[Path, _Known]]:
    found = []
    for path in sorted(task_folder.glob("*/run.json")):
        stem = path.parent.name.removesuffix(suffix)
        if stem.rpartition("-")[0] != prefix or f"{stem}{suffix}" != path.parent.name:
            continue
        if not suffix and "." in stem.rpartition("-")[2]:
            continue  # a part of a partitioned run
        try:
            found.append((path.parent, msgspec.json.decode(path.read_bytes(), type=_Known)))
        except (OSError, msgspec.DecodeError):  # not readable, so not the one that goes on
            continue
    return found


def _in_common(known: Identity, asked: Identity) -> int:
    return len(set(known.get(PROMPTS, {})) & set(asked.get(PROMPTS, {})))


def _differ(known: Identity, asked: Identity) -> bool:
    ours, theirs = known.get(PROMPTS, {}), asked.get(PROMPTS, {})
    return any(ours[name] != theirs[name] for name in set(ours) & set(theirs))
