"""Make the manifest and the index files of a shard directory again, from its sealed shards."""

import contextlib
from pathlib import Path

from runner.errors import DamagedShard
from runner.records import Record
from runner.shards.index import Keying
from runner.shards.layout import blame, index_path, is_open, list_shards, writer_lock
from runner.shards.manifest import Manifest, load_manifest, store_manifest
from runner.shards.openshard import list_shard
from runner.shards.recover import inspect_sealed


class RebuildReport(Record, frozen=True, kw_only=True):
    """What a manifest made again tells of; `forgotten` are files that it used to list."""

    shards: int
    records: int
    forgotten: list[str]


def rebuild(directory: Path, *, keying: Keying) -> RebuildReport:
    """Look through every sealed shard, then write manifest and indexes new.

    The shards themselves are not touched, nor is an open one. Raises DamagedShard, with nothing
    changed, when a shard is not intact, and MachineError while a writer has the directory.
    """
    with writer_lock(directory):
        before = _former(directory)
        shards = {n: path for n, path in list_shards(directory).items() if not is_open(path)}
        sealed = [inspect_sealed(path, number, keying) for number, path in shards.items()]
        forgotten = {number: entry for number, entry in before.items() if number not in shards}
        with blame(directory, "write the manifest of a shard directory"):
            store_manifest(directory, {}, sync=True)
            for number in forgotten:
                index_path(directory, number).unlink(missing_ok=True)
            for one in sealed:
                list_shard(one.path, one.rows, frames=one.frames, sha256=one.sha256, sync=True)
    return RebuildReport(
        shards=len(sealed),
        records=sum(len(one.rows) for one in sealed),
        forgotten=[entry.file for entry in forgotten.values()],
    )


def _former(directory: Path) -> Manifest:
    """The manifest as it was; one that cannot be read is what rebuilding is for."""
    with contextlib.suppress(DamagedShard):
        return load_manifest(directory)
    return {}
