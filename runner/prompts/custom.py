"""A source of the user's own: any class by `_target_`, given as an iterable with a length.

    custom: {_target_: mypackage.MyPrompts, path: ...}

The object needs `__len__`, `__iter__` over its rows (each time from the first) and `fingerprint`, a
text that changes when the rows do. Rows of the shape {"messages": [...]} need nothing else.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from runner.errors import ConfigError
from runner.prompts.source import RowNumbers, pick


class CustomSource:
    """The user's object as a source. Raises ConfigError when it lacks what it needs."""

    def __init__(self, rows: Any, where: str) -> None:
        self.name, self._rows = "", rows
        missing = [
            name for name in ("__len__", "__iter__", "fingerprint") if not hasattr(rows, name)
        ]
        if missing:
            raise ConfigError(
                "This class cannot be a source of prompts.",
                where=f"{where}._target_",
                found=f"{type(rows).__name__} has no {', '.join(missing)}",
                allowed="__len__, __iter__ (rows, from the first) and fingerprint (text)",
            )

    @property
    def identity(self) -> dict[str, Any]:
        return {"class": type(self._rows).__qualname__, "fingerprint": str(self._rows.fingerprint)}

    def __len__(self) -> int:
        return len(self._rows)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        yield from pick(self._rows, rows)
