"""The first pass of planning: which rows are wanted, and what they ask, spooled to disk.

Rows are taken by the lowest selection hash, so a larger count is always a superset. Each part's
rows are spread evenly over the sending order (a row's rank within its part, as a share of the
part), so that any prefix of the order is a fair sample of the mix. Sources are read from front to
back once; what they give lies in an unnamed file until it is wanted in sending order. In memory: 8
bytes for each row of a source, 32 for each prompt.
"""

import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from runner.ledger import prompt_tag, selection_hash
from runner.prompts.exclusion import Exclusion
from runner.prompts.parts import PromptPart
from runner.prompts.shape import Conversation, RowFault
from runner.prompts.source import each

MAX_U64 = 2**64 - 1


class Selection(NamedTuple):
    """The wanted rows of one source, rising, each with its place in the sending order (0 to 1)."""

    part: str
    source: int
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.float64]


class PartSelection(NamedTuple):
    """What a part gives: its selections by source, the rows it has, and the largest hash taken."""

    sources: list[Selection]
    available: int
    threshold: int


def select(part: PromptPart, seed: int) -> PartSelection:
    """The rows of a part with the lowest hashes, `part.count` of them (None: all)."""
    hashes = [
        _hashes(seed, part.name, source.name, rows)
        for source, rows in zip(part.sources, part.rows, strict=True)
    ]
    everything = np.concatenate(hashes)
    whole = part.count is None or part.count >= len(everything)
    wanted = len(everything) if whole else int(part.count or 0)
    order = np.argsort(everything, kind="stable")[:wanted]
    threshold = MAX_U64 if whole else int(everything[order[-1]])
    places = np.full(len(everything), np.nan)
    places[order] = (np.arange(wanted) + 0.5) / max(1, wanted)
    selections, begin = [], 0
    for number, rows in enumerate(part.rows):
        own = places[begin : begin + len(rows)]
        begin += len(rows)
        taken = ~np.isnan(own)
        selections.append(Selection(part.name, number, rows[taken], own[taken]))
    return PartSelection(selections, len(everything), threshold)


def _hashes(
    seed: int, part: str, source: str, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    values = (selection_hash(seed, part, source, row) for row in rows.tolist())
    return np.fromiter(values, dtype=np.uint64, count=len(rows))


class Entry(NamedTuple):
    """One prompt on its way into the plan, or one row that could not become one."""

    part: str
    source: str
    row: int
    turn: int
    conversation: Conversation | None
    skip: str
    duplicate: bool


class _Spooled(msgspec.Struct, array_like=True):
    turn: int
    conversation: Conversation | None
    skip: str


class Gathered:
    """What the sources gave, to be read in sending order. A context manager; nothing of it stays
    on disk, whatever way the process ends."""

    def __init__(self, folder: Path, parts: Mapping[str, PromptPart]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        self._parts = parts
        self._names = list(parts)
        self._places, self._offsets = array("d"), array("q")
        self._part_of, self._source_of = array("H"), array("H")
        self._rows, self._tags = array("q"), array("Q")
        self._decoder = msgspec.json.Decoder(_Spooled)
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, selection: Selection, exclusion: Exclusion) -> Iterator[int]:
        """Read the rows of one selection; yields after each, for progress.

        Raises:
            ConfigError, MachineError: the source cannot be read, or lacks a column.
        """
        part = self._parts[selection.part]
        source = part.sources[selection.source]
        if not len(selection.rows):
            return
        adaptation = part.adaptation
        found = source.read(selection.rows, adaptation.read_columns)
        for (row, value), place in zip(found, each(selection.places), strict=True):
            row_id = row_name(part.name, source.name, row)
            try:
                for asked in adaptation.prompts(value):
                    self._add(selection, row, place, _spooled(asked, exclusion, row_id))
            except RowFault as fault:
                self._add(selection, row, place, _spooled(fault, exclusion, row_id))
            yield row

    def _add(
        self,
        selection: Selection,
        row: int,
        place: float,
        spooled: _Spooled,
    ) -> None:
        asked, data = spooled.conversation, msgspec.json.encode(spooled) + b"\n"
        self._file.write(data)
        self._places.append(place)
        self._offsets.append(self._end)
        self._part_of.append(self._names.index(selection.part))
        self._source_of.append(selection.source)
        self._rows.append(row)
        self._tags.append(prompt_tag(asked.prompt_hash) if asked is not None else 0)
        self._end += len(data)

    def in_order(self, known_tags: Sequence[int] | npt.NDArray[np.uint64] = ()) -> Iterator[Entry]:
        """All entries in sending order; `duplicate` says that an earlier one, or one of
        `known_tags`, has the same messages and tools."""
        self._file.flush()
        order = np.argsort(np.asarray(self._places), kind="stable")
        repeated = self._duplicates(order, np.asarray(known_tags, dtype=np.uint64))
        for index, duplicate in zip(each(order), each(repeated), strict=True):
            self._file.seek(self._offsets[index])
            spooled = self._decoder.decode(self._file.readline())
            name = self._names[self._part_of[index]]
            source = self._parts[name].sources[self._source_of[index]].name
            asked = (spooled.turn, spooled.conversation, spooled.skip)
            yield Entry(name, source, self._rows[index], *asked, duplicate)

    def _duplicates(
        self, order: npt.NDArray[np.int64], known: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.bool_]:
        tags = np.asarray(self._tags, dtype=np.uint64)[order]
        first = np.zeros(len(tags), dtype=bool)
        first[np.unique(tags, return_index=True)[1]] = True
        repeated: npt.NDArray[np.bool_] = (~first | np.isin(tags, known)) & (tags != 0)
        return repeated


def _spooled(asked: Conversation | RowFault, exclusion: Exclusion, row_id: str) -> _Spooled:
    if isinstance(asked, RowFault):
        return _Spooled(asked.turn, None, f"{asked.reason}: {asked.detail}")
    listed = exclusion.hit(asked, row_id)
    return _Spooled(asked.turn, asked, f"excluded: listed in {listed}" if listed else "")


def row_name(part: str, source: str, row: int) -> str:
    """`CATEGORY-ROW`, with `.SOURCE` where a part has several: how sample ids begin."""
    return f"{part}.{source}-{row}" if source else f"{part}-{row}"
