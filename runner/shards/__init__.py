"""A store of JSON lines: multi-frame zstd files in one directory, one writer, any readers.

Standard tools read sealed shards with no code of ours; `ShardReader` and `verify` also notice
what those pass over in silence. Format, promises and recipes: docs/shards.md.
"""

from runner.shards.index import INDEX_DTYPE, Index, Keying, key_hash
from runner.shards.reader import ShardReader
from runner.shards.rebuild import RebuildReport, rebuild
from runner.shards.recover import Recovery
from runner.shards.salvage import SalvageReport, salvage
from runner.shards.verify import Problem, VerifyReport, verify
from runner.shards.writer import ShardWriter

__all__ = [
    "INDEX_DTYPE",
    "Index",
    "Keying",
    "Problem",
    "RebuildReport",
    "Recovery",
    "SalvageReport",
    "ShardReader",
    "ShardWriter",
    "VerifyReport",
    "key_hash",
    "rebuild",
    "salvage",
    "verify",
]
