"""JSON lines: plain (read at its offsets), or compressed with zstd or gzip (read from the front).

ROW counts the lines that are not blank, from 0. Opening a file reads it once, for its row count,
its offsets (8 bytes a row, plain files only) and the SHA-256 of its bytes. A line that is no JSON
is a RowFault that names row and byte; a compressed file that ends too early is a ConfigError that
does.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from runner.errors import ConfigError
from runner.prompts.shape import RowFault
from runner.prompts.source import RowNumbers, each, pick

CODECS = {".zst": "zstd", ".zstd": "zstd", ".gz": "gzip"}
_CHUNK_BYTES = 1 << 20


class JsonlSource:
    """A plain JSON lines file.

    Raises:
        ConfigError: the file is not there, is a folder, or has no rows.
    """

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        self.path, self.name = path, name
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
        if not self._offsets:
            raise no_rows(path, where)
        self._sha256 = digest.hexdigest()

    @property
    def identity(self) -> dict[str, Any]:
        return {"sha256": self._sha256}

    def __len__(self) -> int:
        return len(self._offsets)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        with self.path.open("rb") as file:
            for row in each(rows):
                file.seek(self._offsets[row])
                line = file.readline()
                yield row, parse_line(line, row, self._offsets[row], self.path.name)


class CompressedJsonlSource:
    """A JSON lines file inside a zstd or gzip stream (of one or many frames).

    Raises:
        ConfigError: it cannot be read, is cut, or has no rows.
    """

    def __init__(self, path: Path, where: str, name: str = "") -> None:
        self.path, self.name, self._where = path, name, where
        digest, self._rows = hashlib.sha256(), 0
        for line, _ in self._lines():
            digest.update(line)
            self._rows += bool(line.strip())
        if not self._rows:
            raise no_rows(path, where)
        self._sha256 = digest.hexdigest()

    @property
    def identity(self) -> dict[str, Any]:
        return {"sha256": self._sha256}

    def __len__(self) -> int:
        return self._rows

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        for row, (line, offset) in pick(self._rows_and_offsets(), rows):
            yield row, parse_line(line, row, offset, self.path.name)

    def _rows_and_offsets(self) -> Iterator[tuple[bytes, int]]:
        return (found for found in self._lines() if found[0].strip())

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """Every line with the offset of its beginning in the decoded stream."""
        offset = rows = 0
        try:
            for line in _split(self.path):
                yield line, offset
                offset += len(line)
                rows += bool(line.strip())
        except OSError as error:
            raise unreadable(
                self.path, self._where, f"{error} (at row {rows}, byte {offset} of its content)"
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
    """One line as data, or a RowFault `not_json` that names its row and byte."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else " (the file ends inside this row)"
        return RowFault("not_json", f"row {row}, byte {offset} of {file}: {error}{cut}")


def unreadable(path: Path, where: str, why: str) -> ConfigError:
    """A prompt file that cannot be read, or ends too early."""
    return ConfigError(
        "The prompt file cannot be read.",
        where=where,
        found=f"{path}: {why}",
        next_step="check the path, or fetch the file again",
    )


def no_rows(path: Path, where: str) -> ConfigError:
    """A prompt file without a single row."""
    return ConfigError("The prompt file has no rows.", where=where, found=str(path))
