"""What a column may hold, read the same way by every adapter: text, JSON in a string, lists.

A column that holds something else is a RowFault `wrong_shape` that names it. Nothing is guessed.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from runner.prompts.shape import RowFault

Row = Mapping[str, Any]
Columns = Mapping[str, str | None]
"""What an adapter reads (its own word) -> the column that holds it; None = there is none."""


def cell(row: Row, columns: Columns, role: str) -> Any:
    """The value of a role's column; None when there is no such column or it is null."""
    column = columns.get(role)
    return None if column is None else row.get(column)


def text_cell(row: Row, columns: Columns, role: str, *, required: bool = True) -> str:
    """A column that holds text; "" for a missing one that is not required.

    Raises:
        RowFault: null where it is required, or something else than text.
    """
    value = cell(row, columns, role)
    if value is None and not required:
        return ""
    if value is None:
        raise RowFault("null_content", f"column {columns.get(role)!r} is null or missing")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowFault(
            "wrong_shape", f"column {columns.get(role)!r} holds {type(value).__name__}, not text"
        )
    return str(value)


def json_cell(row: Row, columns: Columns, role: str) -> Any:
    """A column's value, parsed where it is JSON in a string. None for null, "" and "null".

    Raises:
        RowFault: a string that is no JSON.
    """
    value = cell(row, columns, role)
    return parsed(value, f"column {columns.get(role)!r}") if isinstance(value, str) else value


def parsed(text: str, where: str) -> Any:
    """JSON in a string; None for an empty one. Raises RowFault."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise RowFault("wrong_shape", f"{where} is a string that is no JSON: {error}") from None


def _rows_of(value: Any) -> Any:
    """A list of objects that a table holds the other way round ({"from": [...], "value": [...]},
    an old form of `datasets`), turned back; anything else as it is."""
    if not isinstance(value, dict) or not value:
        return value
    columns = list(value.values())
    if not all(isinstance(c, list) and len(c) == len(columns[0]) for c in columns):
        return value
    return [dict(zip(value, items, strict=True)) for items in zip(*columns, strict=True)]


def list_cell(row: Row, columns: Columns, role: str) -> list[Any]:
    """A column that holds a list, also as JSON in a string.

    Raises:
        RowFault: null, empty, or something else.
    """
    value = _rows_of(json_cell(row, columns, role))
    if value is None:
        raise RowFault("no_messages", f"column {columns.get(role)!r} is null, empty or missing")
    if not isinstance(value, list):
        raise RowFault(
            "wrong_shape", f"column {columns.get(role)!r} holds {type(value).__name__}, not a list"
        )
    return value
