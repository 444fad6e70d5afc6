"""Where rows come from: what every source promises, and rows picked out of a stream.

A source has a fixed number of rows, numbered from 0 within one file or split; gives any of them in
rising order; and is known by its content (or a pinned revision), never by its path. Rows are read
when they are asked for, and no source holds its set in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

RowNumbers = npt.NDArray[np.int64]
"""Row numbers, rising, without repeats; shape (rows,)."""
_EACH = 4096


class PromptSource(Protocol):
    """Rows by number. `name` is "" when a part has one source; it becomes part of sample ids."""

    name: str

    @property
    def identity(self) -> dict[str, Any]:
        """What says which rows these are: a content hash, or a data set at a revision."""

    def __len__(self) -> int:
        """How many rows there are; may read the whole source, or fetch it, the first time."""

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """(row, parsed row) for each of `rows`, in order; a RowFault in place of a row that cannot
        be parsed. `columns` names all that will be looked at; a source may give more.

        Raises:
            MachineError: the source cannot be read any more, or ends too early.
        """


def pick(stream: Iterable[Any], rows: RowNumbers) -> Iterator[tuple[int, Any]]:
    """The wanted rows of a stream of all rows; stops reading after the last one."""
    wanted = each(rows)
    next_row = next(wanted, None)
    if next_row is None:
        return
    for row, value in enumerate(stream):
        if row == next_row:
            yield row, value
            next_row = next(wanted, None)
            if next_row is None:
                return


def first_rows(source: PromptSource, count: int) -> list[Any]:
    """The first rows, to look at."""
    rows = np.arange(min(count, len(source)), dtype=np.int64)
    return [value for _, value in source.read(rows)]


def each(values: npt.NDArray[Any]) -> Iterator[Any]:
    """The values as Python's own numbers, some thousands at a time: a list of all would take 32
    bytes and more for each."""
    for begin in range(0, len(values), _EACH):
        yield from values[begin : begin + _EACH].tolist()
