"""Output that repeats itself: one id over and over, a loop, a vocabulary of a few ids.

Covers: one id filling most of the output, and id 0 filling half of it, which is what NaN logits
look like; long runs of one id; periodic loops up to a period of 2,048 ids; a tail that uses a
handful of ids only. Loops are what models do, greedy ones above all, and a drafter must learn them
too: flagged. Output that is one id is what broken engines do: rejected.
Does not cover: repetition with variation (the same paragraph with other numbers), loops of fewer
than three rounds (of fewer than eight where a round is shorter than 32 ids: lists, tables and
matrices repeat themselves so far).

How loops are found: a loop of period p is a stretch of ids that each equal the one p places before,
at least max(2p, 256) of them, and max(8p, 64) where p is below 32. Every stretch so long holds one
of the anchors that stand 128 (32) places apart, with the 8 ids up to it repeated p places before.
All anchors are compared by a hash of 8 ids with the 2,048 (31) places before them, in one
vectorized step; periods that enough anchors agree on are then checked id by id. So no such loop is
missed and none is invented, at about 20 comparisons an id. Where one id stands 64 times in a row
that is told instead of short loops.

Reasons
    zero_id       reject  id 0 is at least half of the output
    single_id     reject  one id fills most of the output
    loop          flag    the same ids again and again, to the very end or in the middle
    long_run      flag    a run of one id, longer than text has
    few_distinct  flag    the last 1,024 ids are less than 2 % different ones

Example: vLLM with NaN logits answered "!!!!!!!!" (id 0 in most vocabularies) up to the length
limit; every row had a finish reason, a length and a text, and training on it taught nothing.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from runner.records import Outcome, Sample, SampleContext, Severity, Verdict

Ids = npt.NDArray[np.int64]

MAX_PERIOD = 2048
REPEATED_AT_LEAST = 256
SHORT_PERIOD = 31
SHORT_ROUNDS = 8
SHORT_AT_LEAST = 64
_GRAM = 8


class _Grid(NamedTuple):
    """Anchors stand `every` so many places; periods up to `longest` are looked for among them.
    `repeated` is how many ids of each period must repeat, `support` how many anchors stand in a
    stretch of that many, at least."""

    every: int
    longest: int
    repeated: npt.NDArray[np.int64]
    support: npt.NDArray[np.int64]


def _grid(every: int, repeated: npt.NDArray[np.int64], *, shortest: int) -> _Grid:
    support = (repeated - _GRAM) // every
    support[:shortest] = np.iinfo(np.int64).max  # an id is always like itself
    return _Grid(every, len(repeated) - 1, repeated, support)


_LONG = _grid(
    REPEATED_AT_LEAST // 2,
    np.maximum(2 * np.arange(MAX_PERIOD + 1), REPEATED_AT_LEAST),
    shortest=1,
)
_SHORT = _grid(
    SHORT_AT_LEAST // 2,
    np.maximum(SHORT_ROUNDS * np.arange(SHORT_PERIOD + 1), SHORT_AT_LEAST),
    shortest=2,
)
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
        if (loop := find_loop(ids, short=length < self._run)) is not None:
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


def find_loop(ids: Ids, *, short: bool = True) -> tuple[int, int, int] | None:
    """(period, start, repeated ids) of a loop as the module says; the shortest period wins."""
    if len(ids) <= SHORT_AT_LEAST:
        return None
    hashes = _gram_hashes(ids)
    for grid in (_SHORT, _LONG) if short else (_LONG,):
        for period in _candidates(ids, hashes, grid):
            start, length = longest_true(ids[period:] == ids[:-period])
            if length >= grid.repeated[period]:
                return period, start, length
    return None


def _candidates(ids: Ids, hashes: npt.NDArray[np.uint32], grid: _Grid) -> list[int]:
    """Periods, rising, on which as many anchors agree as a loop of that period must hold."""
    padded = np.concatenate((_START[: grid.longest], hashes))
    windows = np.lib.stride_tricks.sliding_window_view(padded, grid.longest)
    first = grid.every - 1
    anchors = hashes[first :: grid.every]
    same = windows[first :: grid.every][: len(anchors)] == anchors[:, None]
    at = np.flatnonzero(same.ravel()) % grid.longest  # 1-D: numpy's fast path for sparse masks
    if not len(at):
        return []
    support = np.bincount(grid.longest - at, minlength=grid.longest + 1)
    return [int(p) for p in np.flatnonzero(support >= grid.support) if p < len(ids)]


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
