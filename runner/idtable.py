"""What the token profile says of each id, for whole arrays of ids at once."""

import numpy as np
import numpy.typing as npt

from runner.records import IdKind, TokenProfile

Ids = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]
_LARGEST = 2**62


class IdTable:
    """A table of `IdKind` bits with one row for each id of the output layer."""

    def __init__(self, profile: TokenProfile) -> None:
        table = np.full(profile.vocab_padded + 1, IdKind.UNASSIGNED, dtype=np.uint8)
        for start, end in profile.assigned:
            table[start:end] = 0
        for bit, ids in (
            (IdKind.FORBIDDEN, profile.forbidden_output_ids),
            (IdKind.STOP, profile.stop_ids),
            (IdKind.SPECIAL, list(profile.special_tokens)),
        ):
            inside = [i for i in ids if 0 <= i < profile.vocab_padded]
            table[inside] |= bit
        table[-1] = IdKind.OUTSIDE | IdKind.UNASSIGNED
        self._table = table

    def kinds(self, ids: Ids) -> Kinds:
        """The bits of each id, shape (n,); an id without a row is OUTSIDE and UNASSIGNED."""
        last = len(self._table) - 1
        outside = ids.view(np.uint64) >= last  # a negative id is a huge unsigned one
        if outside.any():
            ids = np.where(outside, last, ids)
        return self._table[ids]


def as_array(ids: list[int]) -> Ids:
    """Ids as a read-only int64 array; what does not fit is brought to the nearest that does."""
    try:
        array = np.fromiter(ids, dtype=np.int64, count=len(ids))
    except OverflowError:
        array = np.array([max(-_LARGEST, min(_LARGEST, i)) for i in ids], dtype=np.int64)
    array.flags.writeable = False
    return array
