"""Sample lines in the order of a file, in bounded memory and with one pass over the shards.

A shard's frames can be read from front to back only, and a shuffled file wants lines of nearly all
of them. So the lines are dealt out first: each is appended, as it comes, to a heap of its file on
disk (`.export/dealt/`). A heap is as large as one file's lines and is read whole when its file is
written. A single file needs no disk: its lines are its heap.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from runner.export.layout import Part, Positions
from runner.export.rows import Rows, numbers_of
from runner.export.sources import Source

BUFFERED_BYTES = 32 * 2**20
"""What all heaps together hold back before it is appended to their files."""


def lines_of(sources: Sequence[Source], rows: Rows, rising: Positions) -> Iterator[bytes]:
    """The lines of these rows, each frame decoded once. Raises DamagedShard."""
    runs = rows["run"][rising]
    for source in sources:
        own = rising[runs == source.ordinal]
        yield from source.samples.lines_at(rows["position"][own].astype(np.int64))


class Dealer:
    """The lines of parts, in the order of writing. `folder` is its own, for the heaps."""

    def __init__(self, sources: Sequence[Source], rows: Rows, folder: Path) -> None:
        self._sources = sources
        self._rows = rows
        self._folder = folder

    def deal(self, parts: Sequence[Part]) -> None:
        """Make a heap for each of the parts, unless there is one only. What a killed export left is
        thrown away: nobody knows how whole it is.

        Raises DamagedShard, OSError.
        """
        shutil.rmtree(self._folder, ignore_errors=True)
        if len(parts) < 2:
            return
        self._folder.mkdir()
        rows = np.concatenate([part.rows for part in parts])
        heap_of = np.repeat(np.arange(len(parts), dtype=np.uint32), [len(p.rows) for p in parts])
        order = np.argsort(rows)
        lines = lines_of(self._sources, self._rows, rows[order])
        heaps = [bytearray() for _ in parts]
        buffered = 0
        for heap, line in zip(numbers_of(heap_of, order), lines, strict=True):
            heaps[heap] += line
            buffered += len(line)
            if buffered > BUFFERED_BYTES:
                self._append(parts, heaps)
                buffered = 0
        self._append(parts, heaps)

    def _append(self, parts: Sequence[Part], heaps: Sequence[bytearray]) -> None:
        for part, heap in zip(parts, heaps, strict=True):
            if heap:
                with self._heap(part).open("ab") as file:
                    file.write(heap)
                heap.clear()

    def lines(self, part: Part) -> Iterator[bytes]:
        """The lines of a part in the order of writing. Raises DamagedShard, OSError."""
        rising = np.sort(part.rows)
        if part.in_order:
            yield from lines_of(self._sources, self._rows, rising)
            return
        heap = self._heap(part)
        dealt = heap.is_file()
        content = heap.read_bytes() if dealt else self._joined(rising)
        ends = np.cumsum(self._rows["line_bytes"][rising], dtype=np.int64)
        begins = np.concatenate(([0], ends[:-1]))
        places = np.searchsorted(rising, part.rows)
        for begin, end in zip(begins[places].tolist(), ends[places].tolist(), strict=True):
            yield bytes(content[begin:end])
        if dealt:
            heap.unlink()

    def _joined(self, rising: Positions) -> bytearray:
        content = bytearray()  # bytes.join would hold all lines twice
        for line in lines_of(self._sources, self._rows, rising):
            content += line
        return content

    def _heap(self, part: Part) -> Path:
        return self._folder / f"{part.split}-{part.number}"
