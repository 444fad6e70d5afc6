"""What the index of a run's shards knows of a line: its id, its prompt, which try, if rejected.

    tag = 56 bits of the prompt hash | 7 bits of `try` | 1 bit `rejected` (verdicts only)

So the accounting of a run is arithmetic on index files: no line is decoded for it. Two prompts that
share 56 bits under one id would be taken for one prompt: once in 10**17 changes of a prompt.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from runner.shards import Index

MAX_TRY = 127
"""The highest `try` that a tag can tell from the others."""
_PROMPT_BITS = np.uint64(2**64 - 256)
_PROMPT_AND_TRY_BITS = np.uint64(2**64 - 2)
_ODD = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: multiplying by it spreads the bits of a tag over all 64."""

Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


def prompt_tag(prompt_hash: str) -> int:
    """The beginning of a prompt hash as a u64; 0 for a row that has no prompt."""
    return int(prompt_hash[:16], 16) if prompt_hash else 0


def tag_of(prompt_hash: str, *, try_: int = 0, rejected: bool = False) -> int:
    """The tag of a line; see the module."""
    return prompt_tag(prompt_hash) & ~255 | min(try_, MAX_TRY) << 1 | rejected


class _Key(msgspec.Struct, rename={"try_": "try"}):
    sample_id: str
    prompt_hash: str = ""
    try_: int = 0
    rejected: bool = False


class _Head(msgspec.Struct, rename={"try_": "try"}):
    """The same of a line of samples/ that is cut off before its ids: all of it must be there."""

    sample_id: str
    prompt_hash: str
    try_: int
    rejected: bool = False


_IDS = b',"input_ids":['
_key_decoder = msgspec.json.Decoder(_Key)
_head_decoder = msgspec.json.Decoder(_Head)


def sample_keying(line: bytes) -> tuple[str, int]:
    """Key and tag of a line of samples/, verdicts/ or plan/ (see runner.shards.Keying)."""
    key = _decode_head(line) or _key_decoder.decode(line)
    return key.sample_id, tag_of(key.prompt_hash, try_=key.try_, rejected=key.rejected)


def _decode_head(line: bytes) -> _Head | None:
    """A sample's key from what lies before its ids, or None: they are nearly all of the line, and
    whoever made it or checked its frame knows that it is whole. `_IDS` begins with a bare quote
    that no comma can come before in a text, so it is found nowhere but at that field."""
    at = line.find(_IDS)
    if at < 0:
        return None
    try:
        return _head_decoder.decode(line[:at] + b"}")
    except msgspec.DecodeError:  # made with another order of fields, or no sample at all
        return None


def tries(index: Index) -> npt.NDArray[np.int64]:
    """The `try` of each line."""
    found: npt.NDArray[np.int64] = ((index["tag"] >> np.uint64(1)) & np.uint64(127)).astype(
        np.int64
    )
    return found


def rejected(index: Index) -> Mask:
    """Of lines of verdicts: whether the sample was rejected."""
    found: Mask = (index["tag"] & np.uint64(1)).astype(bool)
    return found


def prompt_bits(index: Index) -> Hashes:
    """Of each line what its tag tells of the prompt: equal for a sample, its verdict and its place
    in the plan."""
    found: Hashes = index["tag"] & _PROMPT_BITS
    return found


def prompt_pairs(index: Index) -> Hashes:
    """Id and prompt of each line as one hash (the multiplication wraps, as a hash may)."""
    return _mix(index["key"], prompt_bits(index))


def try_pairs(index: Index) -> Hashes:
    """Id, prompt and try of each line as one hash: equal for a sample and its verdict."""
    return _mix(index["key"], index["tag"] & _PROMPT_AND_TRY_BITS)


def _mix(keys: Any, tags: Any) -> Hashes:
    mixed: Hashes = keys ^ (tags * _ODD)
    return mixed


def find(wanted: Hashes, among: Hashes) -> npt.NDArray[np.int64]:
    """For each wanted hash its position in `among` (the last one), -1 where it is not there.

    Sorted hashes are looked for in sorted ones: in another order most of the time goes into waiting
    for memory.
    """
    positions = np.full(len(wanted), -1, dtype=np.int64)
    if not len(among):
        return positions
    order, turn = np.argsort(among, kind="stable"), np.argsort(wanted)
    ordered, rising = among[order], wanted[turn]
    at = np.searchsorted(ordered, rising, side="right") - 1
    hit = (at >= 0) & (ordered[at] == rising)
    positions[turn[hit]] = order[at[hit]]
    return positions


def contains(among: Hashes, wanted: Hashes) -> Mask:
    """For each wanted hash whether it is in `among` (numpy's isin takes five times as long)."""
    hit: Mask = np.zeros(len(wanted), dtype=bool)
    if not len(among):
        return hit
    ordered, turn = np.sort(among), np.argsort(wanted)
    rising = wanted[turn]
    at = np.minimum(np.searchsorted(ordered, rising), len(ordered) - 1)
    hit[turn] = ordered[at] == rising
    return hit


def last_of_each_key(index: Index) -> Mask:
    """For each line in the order of writing, whether it is the last one with its key."""
    last = np.ones(len(index), dtype=bool)
    keys = np.sort(index["key"])
    if not (keys[:-1] == keys[1:]).any():  # in most runs: nothing was asked for again
        return last
    order = np.argsort(index["key"], kind="stable")
    ordered = index["key"][order]
    last[order[:-1][ordered[:-1] == ordered[1:]]] = False
    return last
