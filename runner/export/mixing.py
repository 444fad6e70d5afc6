"""Decisions by hash: a seeded order and shares that any machine repeats, today and in ten years.

numpy promises no stable random streams across its versions; splitmix64 is a fixed formula.
"""

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The constants of splitmix64 (Steele, Lea, Flood, 2014)."""


def mix(values: U64, seed: int) -> U64:
    """One u64 for each value, as good as random and always the same; `seed` gives another row."""
    with np.errstate(over="ignore"):
        mixed = _final(np.uint64((seed * _GOLDEN + _GOLDEN) % 2**64) + values)
        return _final(mixed + np.uint64(_GOLDEN))


def _final(values: U64) -> U64:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def shares(values: U64, seed: int, wanted: list[float]) -> npt.NDArray[np.uint8]:
    """Which of the `wanted` shares each value falls into, by its hash: equal values together."""
    edges = np.cumsum(wanted[:-1]) * 2.0**64
    return np.searchsorted(edges, mix(values, seed).astype(np.float64), side="right").astype(
        np.uint8
    )
