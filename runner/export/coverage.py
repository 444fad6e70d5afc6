"""How often each id is supervised, what a draft vocabulary would cover, and the vocabulary itself.

A drafter predicts over the N most frequent ids only. `d2t[slot]` is the offset from a draft slot to
its target id (target = slot + d2t[slot]), `t2d[id]` whether a target id is in the draft vocabulary:
the buffers of EAGLE-3 in SpecForge, speculators and SGLang. Pure.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runner.errors import ConfigError
from runner.records import TokenProfile

SIZES = (8_192, 16_384, 32_768, 65_536)
"""Sizes for which coverage is told: 8k, 16k, 32k and 64k."""

Counts = npt.NDArray[np.int64]
"""Supervised tokens by id, shape (vocabulary,)."""


class DraftVocabulary(NamedTuple):
    """The ids of a draft vocabulary, sorted. `padded` of them never were supervised and are only
    there to fill it; `forced` would not have made it by frequency."""

    ids: npt.NDArray[np.int64]
    d2t: npt.NDArray[np.int64]
    t2d: npt.NDArray[np.bool_]
    padded: int
    forced: int


def ranked(counts: Counts) -> npt.NDArray[np.int64]:
    """All ids, the most frequent first, equal ones by id."""
    order: npt.NDArray[np.int64] = np.argsort(-counts, kind="stable")
    return order


def covered(counts: Counts, order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The share of tokens that the first n ids of `order` cover, for every n from 0 on."""
    total = int(counts.sum())
    sums = np.concatenate(([0], np.cumsum(counts[order])))
    return sums / total if total else np.zeros(len(sums))


def coverage_table(
    by_category: dict[str, Counts], sizes: tuple[int, ...] = SIZES
) -> dict[str, dict[int, float]]:
    """Category -> size -> share covered. The ids are chosen over all categories together, as a
    trainer does; the row "all" is of all of them."""
    whole = sum_of(by_category)
    order = ranked(whole)
    rows = {"all": whole, **by_category}
    return {
        name: {size: float(covered(counts, order)[min(size, len(order))]) for size in sizes}
        for name, counts in rows.items()
    }


def sum_of(by_category: dict[str, Counts]) -> Counts:
    """The counts of all categories together."""
    total: Counts = np.sum(list(by_category.values()), axis=0)
    return total


def must_have(profile: TokenProfile) -> set[int]:
    """Ids that a drafter must be able to propose however rare they are: ends of a turn, think,
    tool and channel markers."""
    found = set(profile.stop_ids)
    tools, channels = profile.tools, profile.channels
    if tools is not None:
        found |= {tools.section_begin, tools.call_begin, tools.argument_begin}
        found |= {tools.call_end, tools.section_end}
    if channels is not None:
        found |= {channels.start, channels.channel, channels.message, channels.end}
    found |= {i for i in (profile.think_open, profile.think_close) if i is not None}
    return {i for i in found if 0 <= i < profile.vocab_padded}


def draft_vocabulary(counts: Counts, size: int, forced: set[int]) -> DraftVocabulary:
    """The `size` most frequent ids with `forced` among them; unused low ids fill what is missing.

    Raises:
        ConfigError: the model has fewer ids than that, or there are more forced ones.
    """
    if not len(forced) <= size <= len(counts):
        raise ConfigError(
            "A draft vocabulary cannot have this size.",
            where="--draft-size",
            found=f"{size:,}",
            allowed=f"{len(forced):,} (ids that must be in it) to {len(counts):,} (all ids)",
        )
    order = ranked(counts)
    is_forced = np.isin(order, sorted(forced))
    chosen = np.concatenate((order[is_forced], order[~is_forced]))[:size]
    ids = np.sort(chosen)
    t2d = np.zeros(len(counts), dtype=bool)
    t2d[ids] = True
    return DraftVocabulary(
        ids=ids,
        d2t=ids - np.arange(size),
        t2d=t2d,
        padded=int(((counts[ids] == 0) & ~np.isin(ids, sorted(forced))).sum()),
        forced=int((~np.isin(sorted(forced), order[:size])).sum()),
    )
