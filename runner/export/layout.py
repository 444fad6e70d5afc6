"""Which samples go into which file, and in which order. Pure, on rows.

Without a shuffle that is the order of writing. With one, a sample's place is its hash: the order of
a split is uniform from its first file to its last, and any file of it is a fair sample. How lines
come into that order without being held all at once: `dealing`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runner.export.mixing import mix, shares
from runner.export.policy import Policy
from runner.export.rows import Rows

HELD_BYTES = 128 * 2**20
"""Most bytes of sample lines that a shuffled file may hold, as they lie in memory meanwhile."""
ROW_BYTES = 300
"""About what an exported sample takes beside its tokens."""

Positions = npt.NDArray[np.int64]


class Part(NamedTuple):
    """One file to write: positions in the rows, in the order in which they are written."""

    split: str
    number: int
    rows: Positions

    @property
    def in_order(self) -> bool:
        """Whether what is read can be written at once."""
        return bool((np.diff(self.rows) > 0).all())


def lay_out(rows: Rows, policy: Policy, *, bytes_per_token: float) -> list[Part]:
    """The files of an export. A split that gets no sample gets no file."""
    exported = np.flatnonzero(rows["left_out"] == 0)
    names = list(policy.split)
    splits = shares(rows["prompt_key"][exported], policy.seed, list(policy.split.values()))
    parts: list[Part] = []
    for number, name in enumerate(names):
        chosen = exported[splits == number]
        if policy.shuffle:
            chosen = chosen[_shuffled(rows[["key", "run"]][chosen], policy.seed)]
        sizes = _sizes(rows[["tokens", "line_bytes"]][chosen], policy, bytes_per_token)
        cut = _cut(chosen, sizes, policy.part_bytes)
        parts += (Part(name, part, piece) for part, piece in enumerate(cut))
    return parts


def _sizes(rows: Rows, policy: Policy, bytes_per_token: float) -> Positions:
    """About how many bytes of a file each sample takes; more for one that would be much to hold."""
    sizes = (rows["tokens"] * bytes_per_token).astype(np.int64) + ROW_BYTES
    if policy.shuffle:
        held = rows["line_bytes"] * (policy.part_bytes / HELD_BYTES)
        sizes = np.maximum(sizes, held.astype(np.int64))
    return sizes


def _cut(chosen: Positions, sizes: Positions, part_bytes: int) -> list[Positions]:
    """Consecutive pieces of about `part_bytes`; never an empty one."""
    if not len(chosen):
        return []
    piece = (np.cumsum(sizes) - sizes) // part_bytes
    return np.split(chosen, np.flatnonzero(np.diff(piece)) + 1)


def _shuffled(rows: Rows, seed: int) -> Positions:
    """An order by hash. Runs may hold the same ids, so the run is hashed too: else all samples of
    one id would stand side by side."""
    hashes = mix(mix(rows["key"], seed) + rows["run"].astype(np.uint64), seed)
    order: Positions = np.argsort(hashes, kind="stable")
    return order
