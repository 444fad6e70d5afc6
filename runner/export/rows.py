"""Every current sample of the runs as one row of numbers, with what the policy says of it.

The samples themselves are not read: verdicts tell the lengths and the findings, the plan where the
prompt is, the shard index where the line is. A join is by two hashes, of the sample's id and of its
prompt, in streams; about 150 bytes a sample are held, whatever its length.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from runner.export.mixing import mix
from runner.export.policy import LeftOut, Policy, decide, findings_of, flags_of, kept_output
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
from runner.records import Judgement, PlannedSample
from runner.selection import read_request
from runner.shards import ShardReader

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("prompt_key", "<u8"),
        ("position", "<u4"),
        ("shard", "<u4"),
        ("frame", "<u4"),
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
    for name in ("key", "shard", "frame"):
        rows[name] = lines[name]
    rows["prompt_key"], rows["line_bytes"] = prompt_bits(lines), lines["length"]
    rows["position"], rows["run"] = current, source.ordinal
    rows["left_out"], rows["prompt"] = names.left_out.number(UNJUDGED), -1
    at = find(try_pairs(source.verdicts.index()), try_pairs(lines))
    for row, judgement in _records(source.verdicts, at, Judgement):
        _take_judgement(rows[row], judgement, policy, names)
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


def _take_judgement(row: Any, judgement: Judgement, policy: Policy, names: Names) -> None:
    findings = list(findings_of(judgement.verdicts))
    left_out = decide(judgement, findings, policy)
    kept = kept_output(judgement.prompt_tokens, judgement.output_tokens, policy)
    row["tokens"], row["output_tokens"] = judgement.prompt_tokens + kept, kept
    row["category"] = names.categories.number(judgement.category)
    row["flags"] = names.flags.number(flags_of(findings))
    row["left_out"] = names.left_out.number(left_out or _EXPORTED)


def _take_plan(rows: Rows, pairs: Hashes, source: Source, policy: Policy, names: Names) -> None:
    """Where each prompt is, and which samples the plan does not want any more."""
    request = read_request(source.given.run)
    if request is None:
        return
    plan = ShardReader(source.given.run.plan, keying=sample_keying)
    wanted = np.zeros(len(rows), dtype=bool)
    at = find(prompt_pairs(plan.index()), pairs)
    for row, planned in _records(plan, at, PlannedSample):
        rows[row]["prompt"] = planned.prompt
        wanted[row] = request.selects(planned) and not planned.skip
    if not policy.keep_unplanned:
        rows["left_out"][~wanted] = names.left_out.number(UNPLANNED)


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
