"""JSON lines: what the text formats and `pretokenized` have in common."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.export.formats import Finished, PartFile
from runner.export.item import Item

Encode = Callable[[Item], bytes | str]
"""A line without its newline, or (a str) why the format cannot hold the sample."""

_BUFFER_BYTES = 2**20


class LineWriter:
    """A file of lines. A `PartWriter`."""

    def __init__(self, path: Path, encode: Encode, notes: dict[str, int] | None = None) -> None:
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._encode = encode
        self._notes = {} if notes is None else notes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, item: Item) -> str:
        line = self._encode(item)
        if isinstance(line, str):
            return line
        self._file.write(line + b"\n")
        return ""

    def notes(self) -> dict[str, int]:
        return self._notes


class JsonLines:
    """Names and an end without extras: the rest of a `Format` of lines."""

    ordered = True

    def file_name(self, number: int) -> str:
        return f"part-{number:05d}.jsonl"

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        return Finished()
