"""Every current sample of the runs as one row of numbers, with what the policy says of it.

The samples themselves are not read: verdicts tell the lengths and the findings, the plan where the
prompt is, the shard index where the line is. A join is by two hashes, of the sample's id and of its
prompt, in streams; some 250 bytes a sample are held at most, whatever its length.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from runner.export.mixing import mix
from runner.export.policy import LeftOut, Policy, decide, kept_output, opinion_of
from runner.export.sources import Source
from runner.keying import (
    Hashes,
    find,
    last_of_each_key,
    prompt_bits,
    prompt_pairs,
    sample_keying,
    try_pairs,
)
from runner.records import Finish, JudgedVerdict, PlannedSample
from runner.selection import read_request
from runner.shards import ShardReader

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("prompt_key", "<u8"),
        ("position", "<u4"),
        ("line_bytes", "<u4"),
        ("prompt", "<i4"),
        ("tokens", "<u4"),
        ("output_tokens", "<u4"),
        ("run", "<u2"),
        ("category", "<u2"),
        ("flags", "<u4"),
        ("left_out", "<u4"),
    ]
)
"""`position` is the line in the run's sample index, `prompt` the ordinal under prompts/ (-1: not
known), `tokens` and `output_tokens` what is exported (after cutting), `category`, `flags` and
`left_out` numbers of `Names`; left_out 0 means exported."""

Rows = npt.NDArray[Any]
"""A structured array of ROW, shape (samples,)."""

UNJUDGED = LeftOut("unjudged", "no verdict of this set")
UNPLANNED = LeftOut("unplanned", "the plan was made smaller")
BALANCE = LeftOut("balance", "more than the category may give")
_EXPORTED = LeftOut("")
_AT_ONCE = 10_000
_KNOWN_VERDICTS = 4096
"""Texts of verdicts that are remembered with what the policy says of them; a kilobyte each."""


class Numbering:
    """Values to small numbers, in the order in which they came."""

    def __init__(self, *first: Any) -> None:
        self._numbers: dict[Any, int] = {}
        for value in first:
            self.number(value)

    def number(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def values(self) -> list[Any]:
        return list(self._numbers)


@dataclass(frozen=True)
class Names:
    """What the numbers in rows stand for."""

    categories: Numbering = field(default_factory=Numbering)
    flags: Numbering = field(default_factory=lambda: Numbering(""))
    left_out: Numbering = field(default_factory=lambda: Numbering(_EXPORTED))


class Survey(NamedTuple):
    """All current samples: of each run in the order of writing, the runs in their order."""

    rows: Rows
    names: Names


def survey(sources: list[Source], policy: Policy) -> Survey:
    """Look at every current sample and decide. Raises DamagedShard, MachineError."""
    names = Names()
    rows = np.concatenate([_rows_of(source, policy, names) for source in sources])
    _balance(rows, names, policy)
    return Survey(rows, names)


def _rows_of(source: Source, policy: Policy, names: Names) -> Rows:
    index = source.samples.index()
    current = np.flatnonzero(source.current)
    lines = index[current]
    rows = np.zeros(len(current), dtype=ROW)
    rows["key"], rows["line_bytes"] = lines["key"], lines["length"]
    rows["prompt_key"] = prompt_bits(lines)
    rows["position"], rows["run"] = current, source.ordinal
    rows["left_out"], rows["prompt"] = names.left_out.number(UNJUDGED), -1
    _take_judgements(rows, try_pairs(lines), source, policy, names)
    _take_plan(rows, prompt_pairs(lines), source, policy, names)
    return rows


def _records(
    reader: ShardReader, rows: npt.NDArray[np.int64], kind: type[Any]
) -> Iterator[tuple[int, Any]]:
    """(row, record) of the lines that belong to a row; of several with one id the last counts."""
    wanted = np.where(last_of_each_key(reader.index()), rows, -1)
    decoder = msgspec.json.Decoder(kind)
    for line, row in zip(reader.lines(), wanted.tolist(), strict=True):
        if row >= 0:
            yield row, decoder.decode(line)


class _Judged(msgspec.Struct, gc=False):
    """What is read of a judgement. The verdicts stay text: most samples have the very same, and
    decoding them is what takes the time."""

    category: str
    finish: Finish
    prompt_tokens: int
    output_tokens: int
    verdicts: msgspec.Raw


class _Found:
    """Figures of rows as they come, to be put into the table at once: setting one field of one row
    costs as much as all else that is done for a sample."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self._rows = array("q")
        self._values = [array("q") for _ in columns]

    def add(self, row: int, *values: int) -> None:
        self._rows.append(row)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)

    def put(self, rows: Rows) -> None:
        at = np.asarray(self._rows)
        for name, column in zip(self._columns, self._values, strict=True):
            rows[name][at] = column


def _take_judgements(
    rows: Rows, pairs: Hashes, source: Source, policy: Policy, names: Names
) -> None:
    """Lengths, findings, and what the policy says of them."""
    found = _Found("tokens", "output_tokens", "category", "flags", "left_out")
    decode = msgspec.json.Decoder(dict[str, JudgedVerdict]).decode
    opinion = lru_cache(_KNOWN_VERDICTS)(lambda text: opinion_of(decode(text), policy))
    at = find(try_pairs(source.verdicts.index()), pairs)
    for row, judged in _records(source.verdicts, at, _Judged):
        held = opinion(bytes(judged.verdicts))
        kept = kept_output(judged.prompt_tokens, judged.output_tokens, policy)
        found.add(
            row,
            judged.prompt_tokens + kept,
            kept,
            names.categories.number(judged.category),
            names.flags.number(held.flags),
            names.left_out.number(decide(judged, held, policy) or _EXPORTED),
        )
    found.put(rows)


def _take_plan(rows: Rows, pairs: Hashes, source: Source, policy: Policy, names: Names) -> None:
    """Where each prompt is, and which samples the plan does not want any more."""
    request = read_request(source.given.run)
    if request is None:
        return
    plan = ShardReader(source.given.run.plan, keying=sample_keying)
    wanted = np.zeros(len(rows), dtype=bool)
    found = _Found("prompt")
    at = find(prompt_pairs(plan.index()), pairs)
    for row, planned in _records(plan, at, PlannedSample):
        found.add(row, planned.prompt)
        wanted[row] = request.selects(planned) and not planned.skip
    found.put(rows)
    if not policy.keep_unplanned:
        rows["left_out"][~wanted] = names.left_out.number(UNPLANNED)


def numbers_of(rows: Rows, chosen: npt.NDArray[np.int64]) -> Iterator[Any]:
    """These rows as Python's numbers (tuples of them), a few at a time, since those are large."""
    for begin in range(0, len(chosen), _AT_ONCE):
        yield from rows[chosen[begin : begin + _AT_ONCE]].tolist()


def _balance(rows: Rows, names: Names, policy: Policy) -> None:
    """Leave out what a category has more than it may give: those with the highest hashes."""
    if policy.balance is None:
        return
    exported = np.flatnonzero(rows["left_out"] == 0)
    categories = rows["category"][exported]
    counts = np.bincount(categories)
    smallest = int(min(counts[counts > 0], default=0))
    most = smallest if policy.balance == "smallest" else policy.balance
    order = np.lexsort((mix(rows["key"][exported], policy.seed), categories))
    first = np.cumsum(counts) - counts
    rank = np.arange(len(exported)) - first[categories[order]]
    rows["left_out"][exported[order[rank >= most]]] = names.left_out.number(BALANCE)
