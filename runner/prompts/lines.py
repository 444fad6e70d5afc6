"""JSON lines: plain (read at its offsets), or compressed with zstd or gzip (read from the front).

ROW counts the lines that are not blank, from 0. Opening a file reads it once, for its row count,
its offsets (8 bytes a row, plain files only) and the SHA-256 of its bytes. A line that is no JSON
is a RowFault that names row and byte; a compressed file that ends too early is a ConfigError that
does.
"""

import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from runner.prompts.onefile import OneFile, unreadable
from runner.prompts.shape import RowFault
from runner.prompts.source import RowNumbers, each, pick

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some programs put at the beginning of a file."""
CODECS = {".zst": "zstd", ".zstd": "zstd", ".gz": "gzip"}
_CHUNK_BYTES = 1 << 20
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonlSource(OneFile):
    """A plain JSON lines file.

    Raises:
        ConfigError: the file is not there, is a folder, or has no rows.
    """

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        self._offsets = array("q")
        digest, offset = hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                for line in file:
                    digest.update(line)
                    if line.strip():
                        self._offsets.append(offset)
                    offset += len(line)
        except OSError as error:
            raise unreadable(path, where, error.strerror or str(error)) from error
        rows = len(self._offsets)
        super().__init__(path, where, name, sha256=digest.hexdigest(), rows=rows)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        with self.path.open("rb") as file:
            for row in each(rows):
                file.seek(self._offsets[row])
                line = file.readline()
                yield row, parse_line(line, row, self._offsets[row], self.path.name)


class CompressedJsonlSource(OneFile):
    """A JSON lines file inside a zstd or gzip stream (of one or many frames).

    Raises:
        ConfigError: it cannot be read, is cut, or has no rows.
    """

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        self._where = where
        digest, rows = hashlib.sha256(), 0
        for line, _ in self._lines(path):
            digest.update(line)
            rows += bool(line.strip())
        super().__init__(path, where, name, sha256=digest.hexdigest(), rows=rows)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        for row, (line, offset) in pick(self._rows_and_offsets(), rows):
            yield row, parse_line(line, row, offset, self.path.name)

    def _rows_and_offsets(self) -> Iterator[tuple[bytes, int]]:
        return (found for found in self._lines(self.path) if found[0].strip())

    def _lines(self, path: Path) -> Iterator[tuple[bytes, int]]:
        """Every line with the offset of its beginning in the decoded stream."""
        offset = rows = 0
        try:
            for line in _split(path):
                yield line, offset
                offset += len(line)
                rows += bool(line.strip())
        except OSError as error:
            raise unreadable(
                path, self._where, f"{error} (at row {rows}, byte {offset} of its content)"
            ) from error


def _split(path: Path) -> Iterator[bytes]:
    """The lines of a compressed file, newlines kept. Raises OSError where the stream is cut."""
    with path.open("rb") as raw, pa.CompressedInputStream(raw, CODECS[path.suffix]) as stream:
        rest = b""
        while chunk := stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest:
            yield rest


def parse_line(line: bytes, row: int, offset: int, file: str) -> Any:
    """One line as data, or a RowFault that names its row and byte: `not_json`, or `not_text` for
    JSON that is whole but for half a character."""
    if offset == 0:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = f"row {row}, byte {offset} of {file}"
        if _has_lone_surrogate(line):
            return RowFault("not_text", f"{place}: a text holds a lone surrogate")
        cut = "" if line.endswith(b"\n") else " (the file ends inside this row)"
        return RowFault("not_json", f"{place}: {error}{cut}")


def _has_lone_surrogate(line: bytes) -> bool:
    """Python writes such escapes, and only its own reader takes them."""
    if not _SURROGATE.search(line):
        return False
    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
