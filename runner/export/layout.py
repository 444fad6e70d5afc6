"""Which samples go into which file, and in which order. Pure, on rows.

Without a shuffle that is the order of writing. With one, whole frames of a shard (about twenty
samples) are dealt to files in a seeded order, since a frame is the least that can be read; within a
file the order is uniform. So nothing is read twice, no copy is sorted on disk, and memory is
bounded by one file's lines.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runner.export.mixing import U64, mix, shares
from runner.export.policy import Policy
from runner.export.rows import Rows

HELD_BYTES = 128 * 2**20
"""Most bytes of sample lines that a shuffled file may hold, as they lie in memory meanwhile."""
ROW_BYTES = 300
"""About what an exported sample takes beside its tokens."""

Positions = npt.NDArray[np.int64]


class Part(NamedTuple):
    """One file to write: `reading` are positions in the rows, in the order in which they are read;
    `writing` are positions in `reading`, in the order in which they are written."""

    split: str
    number: int
    reading: Positions
    writing: Positions

    @property
    def in_order(self) -> bool:
        """Whether what is read can be written at once."""
        return bool((np.diff(self.writing) == 1).all())


def lay_out(rows: Rows, policy: Policy, *, bytes_per_token: float) -> list[Part]:
    """The files of an export. A split that gets no sample gets no file."""
    exported = np.flatnonzero(rows["left_out"] == 0)
    names = list(policy.split)
    splits = shares(rows["prompt_key"][exported], policy.seed, list(policy.split.values()))
    parts: list[Part] = []
    for number, name in enumerate(names):
        chosen = exported[splits == number]
        if policy.shuffle:
            chosen = chosen[_frames_shuffled(rows[chosen], policy.seed)]
        sizes = _sizes(rows[chosen], policy, bytes_per_token)
        for part, reading in enumerate(_cut(chosen, sizes, policy.part_bytes)):
            parts.append(Part(name, part, reading, _writing(rows[reading], policy)))
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


def _frames_shuffled(rows: Rows, seed: int) -> Positions:
    """An order in which frames come by hash, and the lines of a frame as they stand in it."""
    order: Positions = np.lexsort((rows["position"], rows["run"], mix(_frame_ids(rows), seed)))
    return order


def _frame_ids(rows: Rows) -> U64:
    run, shard = rows["run"].astype(np.uint64), rows["shard"].astype(np.uint64)
    ids: U64 = (run << np.uint64(48)) + (shard << np.uint64(28)) + rows["frame"].astype(np.uint64)
    return ids


def _writing(rows: Rows, policy: Policy) -> Positions:
    if not policy.shuffle:
        return np.arange(len(rows))
    order: Positions = np.lexsort(
        (rows["position"], rows["run"], mix(rows["key"], policy.seed + 1))
    )
    return order
