"""What all sources of one file have in common: its content is what it is known by."""

import hashlib
from pathlib import Path
from typing import Any

from runner.errors import ConfigError

_CHUNK_BYTES = 1 << 20


class OneFile:
    """A file of rows; the rest of a `PromptSource` is how they are read.

    Raises:
        ConfigError: it has no rows.
    """

    def __init__(self, path: Path, where: str, name: str, *, sha256: str, rows: int) -> None:
        if not rows:
            raise no_rows(path, where)
        self.path, self.name = path, name
        self._sha256, self._rows = sha256, rows

    @property
    def identity(self) -> dict[str, Any]:
        return {"sha256": self._sha256}

    def __len__(self) -> int:
        return self._rows


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


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
