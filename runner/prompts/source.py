"""Where rows come from: a protocol, and JSON lines in a file. Lazy: rows are read when asked for.

A source has a fixed number of rows, reads any of them by its number, and is known by its content,
not by its path. ROW counts the lines that are not blank, from 0, within one file.
"""

import hashlib
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from runner.config import Config, Part, SourceKind
from runner.errors import ConfigError
from runner.modelfiles import ASSETS
from runner.prompts.shape import RowFault


class PromptSource(Protocol):
    """Rows by number. `name` is "" when a category has one source."""

    name: str
    fingerprint: str

    def __len__(self) -> int: ...

    def read(self, row: int) -> Any:
        """Row `row` as parsed data. Raises RowFault when it cannot be parsed."""


class JsonlSource:
    """A JSON lines file. Opening it reads it once for line offsets (8 bytes a row) and its hash.

    Raises:
        ConfigError: the file is not there, is a folder, or has no rows.
    """

    name = ""

    def __init__(self, path: Path, where: str) -> None:
        self.path = path
        self._offsets = array("q")
        digest, offset = hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                for line in file:
                    digest.update(line)
                    if line.strip():
                        self._offsets.append(offset)
                    offset += len(line)
            self._file = path.open("rb")
        except OSError as error:
            raise ConfigError(
                "The prompt file cannot be read.",
                where=where,
                found=f"{path}: {error.strerror}",
                allowed='JSON lines, {"messages": [...], "tools"?: [...]}',
            ) from error
        if not self._offsets:
            raise ConfigError("The prompt file has no rows.", where=where, found=str(path))
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, row: int) -> Any:
        self._file.seek(self._offsets[row])
        line = self._file.readline()
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            where = f"row {row}, byte {self._offsets[row]} of {self.path.name}"
            cut = "" if line.endswith(b"\n") else " (the file ends inside this row)"
            raise RowFault("not_json", f"{where}: {error}{cut}") from None


def open_sources(config: Config) -> Mapping[str, PromptSource]:
    """The source of every part of the category, by part name.

    Raises:
        ConfigError: a file that cannot be read.
    """
    return {name: _open(config, name, part) for name, part in config.category.parts.items()}


def _open(config: Config, name: str, part: Part) -> PromptSource:
    if config.source.kind is SourceKind.file:
        return JsonlSource(Path(str(config.source.path)).expanduser().resolve(), "source.path")
    file = part.bundled.file if part.bundled is not None else ""
    return JsonlSource(ASSETS / "prompts" / file, f"category.parts.{name}.bundled.file")
