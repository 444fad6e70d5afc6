"""Output that repeats itself: one id over and over, a loop, a vocabulary of a few ids.

Covers: one id filling most of the output, and id 0 filling half of it, which is what NaN logits
look like; long runs of one id; periodic loops up to a period of 2,048 ids; a tail that uses a
handful of ids only. Loops are what models do, greedy ones above all, and a drafter must learn them
too: flagged. Output that is one id is what broken engines do: rejected.
Does not cover: repetition with variation (the same paragraph with other numbers), loops of fewer
than three rounds.

How loops are found: a loop of period p is a stretch of at least max(2p, 256) ids that each equal
the one p places before. Every stretch so long holds one of the anchors that stand 128 places apart,
with the 8 ids up to it repeated p places before. All anchors are compared by a hash of 8 ids with
the 2,048 places before them, in one vectorized step; periods that enough anchors agree on are then
checked id by id. So no such loop is missed and none is invented, at about 20 comparisons an id.

Reasons
    zero_id       reject  id 0 is at least half of the output
    single_id     reject  one id fills most of the output
    loop          flag    the same ids again and again, at least three rounds and 256 repeated ids
    long_run      flag    a run of one id, longer than text has
    few_distinct  flag    the last 1,024 ids are less than 2 % different ones

Example: vLLM with NaN logits answered "!!!!!!!!" (id 0 in most vocabularies) up to the length
limit; every row had a finish reason, a length and a text, and training on it taught nothing.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from runner.records import Outcome, Sample, SampleContext, Severity, Verdict

Ids = npt.NDArray[np.int64]

MAX_PERIOD = 2048
REPEATED_AT_LEAST = 256
_ANCHOR_EVERY = REPEATED_AT_LEAST // 2
_GRAM = 8
_PERIODS = np.arange(MAX_PERIOD + 1)
_NEEDED = (np.maximum(2 * _PERIODS, REPEATED_AT_LEAST) - _GRAM) // _ANCHOR_EVERY
_NEEDED[0] = np.iinfo(np.int64).max  # an id is always like itself
"""For each period: anchors that stand in a loop of it, at least."""
_START = np.arange(MAX_PERIOD, dtype=np.uint32)
"""Stands for what would be in front of the first id."""
_MIX = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)


class Degeneration:
    """See the module. `most` is a share of the output, `run` and `at_least` are counts of ids."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "zero_id": Severity.REJECT,
        "single_id": Severity.REJECT,
        "loop": Severity.FLAG,
        "long_run": Severity.FLAG,
        "few_distinct": Severity.FLAG,
    }

    def __init__(
        self, *, most: float = 0.8, run: int = 64, at_least: int = 16, distinct: float = 0.02
    ) -> None:
        self._most = most
        self._run = run
        self._at_least = at_least
        self._distinct = distinct

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the first reason that applies, in the order above."""
        ids = context.output
        if len(ids) < self._at_least:
            return Verdict(outcome=Outcome.PASS)
        zeros = int((ids == 0).sum())
        if zeros * 2 >= len(ids):
            return _fail("zero_id", f"{zeros} of {len(ids)} ids")
        start, length, runs = longest_run(ids)
        if (verdict := self._single(ids, length, runs)) is not None:
            return verdict
        if (loop := find_loop(ids)) is not None:
            period, at, repeated = loop
            return _fail("loop", f"period {period}, {repeated} repeated ids from position {at}")
        if length >= self._run:
            return _fail("long_run", f"{length} times id {int(ids[start])} from position {start}")
        return self._few_distinct(ids)

    def _single(self, ids: Ids, length: int, runs: int) -> Verdict | None:
        """One id in most places, or in one run over more than half of them."""
        if length * 2 > len(ids) + 1:
            return _fail("single_id", f"a run of {length} of {len(ids)} ids")
        if runs > 2 * (1 - self._most) * len(ids) + 1:
            return None  # what stands between one id's runs would be more than is left for it
        token = int(np.median(ids))  # an id in more than half of the places is the median
        count = int((ids == token).sum())
        if count >= self._most * len(ids):
            return _fail("single_id", f"{count} of {len(ids)} are id {token}")
        return None

    def _few_distinct(self, ids: Ids) -> Verdict:
        tail = ids[-1024:]
        if len(tail) == 1024:
            ordered = np.sort(tail)
            different = 1 + int((ordered[1:] != ordered[:-1]).sum())
            if different < self._distinct * len(tail):
                return _fail("few_distinct", f"{different} different ids in the last {len(tail)}")
        return Verdict(outcome=Outcome.PASS)


def longest_run(ids: Ids) -> tuple[int, int, int]:
    """(start, length) of the longest run of one id, the first of equal ones, and how many runs
    there are."""
    changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    edges = np.concatenate(([0], changes, [len(ids)]))
    lengths = np.diff(edges)
    longest = int(lengths.argmax())
    return int(edges[longest]), int(lengths[longest]), len(lengths)


def find_loop(ids: Ids) -> tuple[int, int, int] | None:
    """(period, start, repeated ids) of a loop as the module says; the shortest period wins."""
    if len(ids) <= REPEATED_AT_LEAST:
        return None
    for period in _candidates(ids):
        start, length = longest_true(ids[period:] == ids[:-period])
        if length >= max(2 * period, REPEATED_AT_LEAST):
            return period, start, length
    return None


def _candidates(ids: Ids) -> list[int]:
    """Periods, rising, on which as many anchors agree as a loop of that period must hold."""
    hashes = _gram_hashes(ids)
    padded = np.concatenate((_START, hashes))
    windows = np.lib.stride_tricks.sliding_window_view(padded, MAX_PERIOD)
    first = _ANCHOR_EVERY - 1
    anchors = hashes[first::_ANCHOR_EVERY]
    same = windows[first::_ANCHOR_EVERY][: len(anchors)] == anchors[:, None]
    at = np.flatnonzero(same.ravel()) % MAX_PERIOD  # 1-D: numpy's fast path for sparse masks
    if not len(at):
        return []
    support = np.bincount(MAX_PERIOD - at, minlength=MAX_PERIOD + 1)
    return [int(p) for p in np.flatnonzero(support >= _NEEDED) if p < len(ids)]


def _gram_hashes(ids: Ids) -> npt.NDArray[np.uint32]:
    """A hash of each 8 consecutive ids, shape (n - 7,): pairs, pairs of pairs, pairs of those.
    Equal ids give equal hashes; other ids rarely do, and are told apart afterwards."""
    hashes = ids.astype(np.uint32)
    for step, factor in zip((1, 2, 4), _MIX, strict=True):
        hashes = hashes[step:] * np.uint32(factor) + (hashes[:-step] ^ (hashes[:-step] >> 15))
    return hashes


def longest_true(mask: npt.NDArray[np.bool]) -> tuple[int, int]:
    """(start, length) of the longest stretch of True; (0, 0) for none."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).view(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[2 * longest]), int(lengths[longest])


def _fail(reason: str, detail: str) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=detail)
