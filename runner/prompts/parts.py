"""The parts of a category with everything that decides which prompts they give.

    part = sources + filters + adapter and columns + turn policy; and how many rows: count, n

Opening a part finds its files and what they hold; hub sets are only looked up, and rows are read
when a plan needs them.
"""

import heapq
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from runner.config import Columns, Config, Part, SourceKind, TurnPolicy
from runner.errors import ConfigError
from runner.identity import digest_of
from runner.modelfiles import ASSETS
from runner.plugins import make_source
from runner.prompts.adapt import AUTO, PEEKED_ROWS, Adaptation, columns_of, settle
from runner.prompts.custom import CustomSource
from runner.prompts.files import open_files
from runner.prompts.filters import filter_columns, rows_that_pass
from runner.prompts.hub import HubSource
from runner.prompts.shape import RowFault
from runner.prompts.source import PromptSource, RowNumbers, first_rows


class PromptPart:
    """One part, opened. `where` is the config key that messages name."""

    def __init__(self, name: str, part: Part, config: Config) -> None:
        self.name, self._part = name, part
        self.where = f"category.parts.{name}.{config.source.kind.value}"
        own_path = config.source.kind is SourceKind.file and bool(config.source.path)
        self._shape_where = "source" if own_path else self.where
        self.sources, self._adapter, self._columns = _open(name, part, config, self.where)
        self.n = part.n if part.n is not None else config.category.n
        self.count = _counts(config)[name]
        self.max_prompt_tokens = part.max_prompt_tokens
        from_hub = config.source.kind is SourceKind.hub and part.hub is not None
        own = part.hub.turns if from_hub and part.hub is not None else None
        self._turns = own if own is not None else part.turns
        self.expected = part.expected

    @property
    def identity(self) -> dict[str, Any]:
        """What says which prompts this part gives; settings at their default are left out."""
        part = self._part
        sources = [source.identity for source in self.sources]
        found: dict[str, Any] = sources[0] if len(sources) == 1 else {"sources": sources}
        extras: dict[str, tuple[Any, Any]] = {
            "adapter": (self._adapter, AUTO),
            "columns": (self._columns, {}),
            "turns": (self._turns.value, TurnPolicy.last_user.value),
            "filters": (list(part.filters), []),
            "max_prompt_tokens": (part.max_prompt_tokens, None),
        }
        return found | {key: value for key, (value, usual) in extras.items() if value != usual}

    @cached_property
    def fingerprint(self) -> str:
        """The identity as one word, for the plan."""
        return digest_of(self.identity)

    @cached_property
    def rows(self) -> list[RowNumbers]:
        """For each source, the rows that the filters leave.

        Raises:
            ConfigError: a filter's column is not there, or the filters leave nothing.
        """
        filters = self._part.filters
        for column in filter_columns(filters):
            if column not in self.columns:
                raise self._filtered(
                    "The rows have no such column.", column, ", ".join(self.columns) or "none"
                )
        rows = [rows_that_pass(source, filters) for source in self.sources]
        if filters and not any(len(found) for found in rows):
            raise self._filtered("No row passes the filters.", "; ".join(filters), "")
        return rows

    def _filtered(self, what: str, found: str, allowed: str) -> ConfigError:
        where = f"category.parts.{self.name}.filters"
        return ConfigError(what, where=where, found=found, allowed=allowed)

    @cached_property
    def columns(self) -> list[str]:
        """The columns that the first rows have. Raises ConfigError when none of them is a row."""
        rows = first_rows(self.sources[0], PEEKED_ROWS)
        faults = [row for row in rows if isinstance(row, RowFault)]
        if rows and len(faults) == len(rows):
            raise ConfigError(
                f"None of the first {len(rows)} rows can be read.",
                where=self._shape_where,
                found=f"{faults[0].reason}: {faults[0].detail}",
                next_step="mend the file, or give it the ending that says what it is",
            )
        return columns_of(rows)

    @cached_property
    def adaptation(self) -> Adaptation:
        """The adapter with its columns, settled on the columns that the rows have.

        Raises:
            ConfigError: a column is not there, or no adapter fits.
        """
        return settle(
            self._adapter, self._columns, self._turns, self.columns, where=self._shape_where
        )


def open_parts(config: Config) -> Mapping[str, PromptPart]:
    """Every part of the category, by name, in config order.

    Raises:
        ConfigError: a file or data set that cannot be read as configured.
        MachineError: the hub cannot be reached.
    """
    return {name: PromptPart(name, part, config) for name, part in config.category.parts.items()}


def _open(
    name: str, part: Part, config: Config, where: str
) -> tuple[list[PromptSource], str, dict[str, str | None]]:
    """The sources of a part, its adapter and its columns."""
    source, own = config.source, part.file
    if source.kind is SourceKind.hub and part.hub is not None:
        return [HubSource(part.hub, where)], part.hub.adapter, chosen_columns(part.hub.columns)
    if source.kind is SourceKind.custom:
        made = make_source(part.custom or {}, where)
        return [CustomSource(made, where)], AUTO, {}
    if source.kind is SourceKind.bundled:
        file = part.bundled.file if part.bundled is not None else ""
        return open_files(str(ASSETS / "prompts" / file), f"{where}.file"), AUTO, {}
    columns = chosen_columns(own.columns) | chosen_columns(source.columns)
    key = "source.path" if source.path else f"{where}.path"
    return open_files(source.path or own.path or "", key), source.adapter or own.adapter, columns


def chosen_columns(columns: Columns) -> dict[str, str | None]:
    """The words that are set to something else than the usual column."""
    return {word: column for word, column in vars(columns).items() if column != ""}


def _counts(config: Config) -> dict[str, int | None]:
    """Rows wanted of each part; None for all of them."""
    category = config.category
    if category.total is not None:
        return {**share_out(category.total, {n: p.weight for n, p in category.parts.items()})}
    from_hub = config.source.kind is SourceKind.hub

    def count(part: Part) -> int | None:
        given = part.hub.count if from_hub and part.hub is not None else None
        return next((c for c in (part.count, category.count, given) if c is not None), None)

    return {name: count(part) for name, part in category.parts.items()}


def share_out(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Whole shares of `total` by weight (Sainte-Laguë: row after row goes to the part that is
    furthest behind). They add up to `total`, and no share shrinks when the total grows."""
    shares = dict.fromkeys(weights, 0)
    behind = [(0.5 / weight, name) for name, weight in weights.items()]
    heapq.heapify(behind)
    for _ in range(total):
        _, name = behind[0]
        shares[name] += 1
        heapq.heapreplace(behind, ((shares[name] + 0.5) / weights[name], name))
    return shares
