"""Rows of any known shape to prompts: the table of adapters, their columns, and the turn policy.

`columns` in the config maps an adapter's own word to a column of the data set
(`{prompt: input, answer: output}`); a word that is not set keeps its default, and `null` says that
the data set has no such column. `adapter: auto` looks at the columns of the first rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from runner.config import TurnPolicy
from runner.errors import ConfigError
from runner.prompts.adapters import (
    from_instruction,
    from_messages,
    from_prompt,
    from_sharegpt,
    from_trajectory,
)
from runner.prompts.cells import Columns, Row, cell
from runner.prompts.glaive import from_glaive
from runner.prompts.shape import Conversation, RowFault, check, check_asks
from runner.prompts.turns import cuts
from runner.records import Record

AUTO = "auto"
PEEKED_ROWS = 100
"""Rows looked at to know the columns of a source that does not say them itself."""


class Adapter(Record, frozen=True, kw_only=True):
    """A shape: the columns it cannot do without, those it may have, and how it is read.

    `required` and `optional` map the adapter's word to the usual column."""

    read: Callable[[Row, Columns], Conversation]
    required: dict[str, str]
    optional: dict[str, str] = {}


_EXTRAS = {"system": "system", "tools": "tools", "answer": "answer"}
ADAPTERS: dict[str, Adapter] = {
    "messages": Adapter(read=from_messages, required={"messages": "messages"}, optional=_EXTRAS),
    "sharegpt": Adapter(
        read=from_sharegpt, required={"conversations": "conversations"}, optional=_EXTRAS
    ),
    "trajectory": Adapter(read=from_trajectory, required={"trajectory": "trajectory"}),
    "glaive": Adapter(read=from_glaive, required={"chat": "chat"}, optional={"system": "system"}),
    "instruction": Adapter(
        read=from_instruction,
        required={"instruction": "instruction"},
        optional={"input": "input", "system": "system", "tools": "tools"},
    ),
    "problem": Adapter(
        read=from_prompt,
        required={"prompt": "problem"},
        optional={"answer": "answer", "system": "system"},
    ),
    "question": Adapter(
        read=from_prompt,
        required={"prompt": "question"},
        optional={"answer": "answer", "system": "system"},
    ),
    "prompt": Adapter(
        read=from_prompt, required={"prompt": "prompt"}, optional={"system": "system"}
    ),
}
"""By name, in the order in which `auto` tries them."""
_ANYWHERE = ("answer", "id")
"""Words that may be set for every adapter: a reference answer, the data set's own row id."""


class Adaptation(Record, frozen=True, kw_only=True):
    """An adapter with its columns settled and its turn policy: a row in, prompts out."""

    adapter: str
    columns: dict[str, str | None]
    turns: TurnPolicy

    def prompts(self, row: Any) -> Iterator[Conversation | RowFault]:
        """The prompts of one row; a fault in place of each turn that cannot be asked, where the
        row has others. Raises RowFault for the row as a whole."""
        whole = self._whole(row)
        found = False
        for turn, length in cuts(whole.messages, self.turns):
            found = True
            asked = Conversation(
                messages=whole.messages[:length],
                tools=whole.tools,
                answer=whole.answer,
                turn=turn,
                id=whole.id,
            )
            try:
                yield check_asks(asked)
            except RowFault as fault:
                if self.turns is not TurnPolicy.each_assistant_turn:
                    raise
                yield RowFault(fault.reason, fault.detail, turn=turn)
        if not found:
            raise RowFault("no_turn_to_ask", f"turns={self.turns.value} finds nothing to ask")

    def _whole(self, row: Any) -> Conversation:
        if isinstance(row, RowFault):
            raise row
        if not isinstance(row, Mapping):
            raise RowFault("not_an_object", f"a row is a JSON object, this is {type(row).__name__}")
        read = check(ADAPTERS[self.adapter].read(row, self.columns))
        own = cell(row, self.columns, "id")
        if own is None:
            return read
        return Conversation(
            messages=read.messages, tools=read.tools, answer=read.answer, id=str(own)
        )

    @property
    def read_columns(self) -> list[str]:
        """The columns that are read; a source need not decode any other."""
        return sorted({column for column in self.columns.values() if column is not None})


def settle(
    adapter: str,
    columns: Mapping[str, str | None],
    turns: TurnPolicy,
    have: Sequence[str],
    *,
    where: str,
) -> Adaptation:
    """The adapter and the columns for a source that has the columns `have`.

    Raises:
        ConfigError: no adapter fits, or a configured column is not there; it lists those that are.
    """
    name = _detect(columns, have, where) if adapter == AUTO else adapter
    if name not in ADAPTERS:
        raise ConfigError(
            "There is no such adapter.",
            where=f"{where}.adapter",
            found=name,
            allowed=", ".join([AUTO, *ADAPTERS]),
        )
    chosen = ADAPTERS[name]
    known = {*chosen.required, *chosen.optional, *_ANYWHERE}
    for word, column in columns.items():
        if word not in known:
            raise ConfigError(
                f"Adapter {name!r} reads nothing of this name.",
                where=f"{where}.columns.{word}",
                found=word,
                allowed=", ".join(sorted(known)),
            )
        if column is not None and column not in have:
            raise _no_column(f"{where}.columns.{word}", column, have)
    settled = _settled(chosen, columns, have)
    for word in chosen.required:
        column = settled.get(word)
        if column is None or column not in have:
            raise _no_column(f"{where}.columns.{word}", str(column), have)
    return Adaptation(adapter=name, columns=settled, turns=turns)


def _settled(
    chosen: Adapter, columns: Mapping[str, str | None], have: Sequence[str]
) -> dict[str, str | None]:
    optional = {word: column for word, column in chosen.optional.items() if column in have}
    return dict(sorted({**chosen.required, **optional, **columns}.items()))


def _detect(columns: Mapping[str, str | None], have: Sequence[str], where: str) -> str:
    for name, adapter in ADAPTERS.items():
        needed = {word: columns.get(word, usual) for word, usual in adapter.required.items()}
        if all(column in have for column in needed.values()):
            return name
    wanted = "; ".join(f"{n}: {', '.join(a.required.values())}" for n, a in ADAPTERS.items())
    raise ConfigError(
        "The rows have none of the columns that an adapter needs.",
        where=f"{where}.adapter",
        found=f"columns {', '.join(have) or 'none'}",
        allowed=wanted,
        next_step=f"name them: {where}.adapter=prompt {where}.columns.prompt=COLUMN",
    )


def _no_column(where: str, column: str, have: Sequence[str]) -> ConfigError:
    return ConfigError(
        "The rows have no such column.",
        where=where,
        found=column,
        allowed=", ".join(have) or "no columns at all",
    )


def columns_of(rows: Iterable[Any]) -> list[str]:
    """The columns of some rows, in the order in which they appear."""
    found: dict[str, None] = {}
    for row in rows:
        if isinstance(row, Mapping):
            found.update(dict.fromkeys(map(str, row)))
    return list(found)
