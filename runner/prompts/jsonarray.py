"""A .json file: an array of rows. (One that holds JSON lines is read as such: `files`.)

The file is mapped, not loaded; opening it walks over it once to find where each row begins and ends
(16 bytes a row), which costs about a second for 100 MB. A file that is cut is a ConfigError naming
the row and byte at which its rows stop being whole.
"""

import mmap
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runner.errors import ConfigError
from runner.prompts.lines import BYTE_ORDER_MARK, parse_line
from runner.prompts.onefile import OneFile, sha256_of, unreadable
from runner.prompts.source import RowNumbers

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|"', re.DOTALL)
"""A whole string, a bracket, or the quote of a string that never ends. Possessive: no backtracking
over long texts."""


class JsonArraySource(OneFile):
    """See the module.

    Raises:
        ConfigError: not readable, no array, cut, or empty.
    """

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        self._starts, self._ends = array("q"), array("q")
        try:
            sha256 = sha256_of(path)
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                self._find_rows(data, path, where)
        except (OSError, ValueError) as error:
            raise unreadable(path, where, str(error)) from error
        super().__init__(path, where, name, sha256=sha256, rows=len(self._starts))

    def _find_rows(self, data: mmap.mmap, path: Path, where: str) -> None:
        depth = 0
        for found in _TOKEN.finditer(data):
            token, position = found[0], found.start()
            if token in (b"{", b"["):
                depth += 1
                if depth == 2:
                    self._starts.append(position)
            elif token in (b"}", b"]"):
                depth -= 1
                if depth == 1:
                    self._ends.append(found.end())
                if depth == 0:
                    return
            elif token == b'"':
                break
        raise _cut(path, where, len(self._ends), self._starts, len(data))

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        with self.path.open("rb") as file:
            for row in rows.tolist():
                start, end = self._starts[row], self._ends[row]
                file.seek(start)
                yield row, parse_line(file.read(end - start) + b"\n", row, start, self.path.name)


def _cut(path: Path, where: str, whole: int, starts: "array[int]", size: int) -> ConfigError:
    begun = starts[whole] if whole < len(starts) else size
    return unreadable(
        path, where, f"the array never ends: row {whole}, which begins at byte {begun}, is cut"
    )


def begins_with_array(path: Path) -> bool:
    """Whether the first character that is no white space is `[`. Raises OSError."""
    with path.open("rb") as file:
        while chunk := file.read(4096):
            if stripped := chunk.lstrip(BYTE_ORDER_MARK + b" \t\r\n"):
                return stripped[:1] == b"["
    return False
