"""What a plan holds already, as sorted numbers: 40 bytes a sample.

A row counts as planned when the whole plan (its request.json) selects it. Rows that a crash left
behind in the middle of an extension are read again, and only their missing samples are added.

A source is known by its content, but what makes prompts of its rows is code, which an upgrade
changes; and a source of the user's own only says that it is the same. So a plan that grows reads
some of its old rows again too: prompts of two kinds would be found out before they are mixed.
"""

import numpy as np
import numpy.typing as npt

from runner.gather import Selection, row_name
from runner.ledger import PlanRequest, prompt_tag, read_plan, sample_keying
from runner.rundir import RunDir
from runner.shards import ShardReader, key_hash

_NO_ROWS = np.zeros(0, dtype=np.int64)
LOOKED_AT_AGAIN = 32
"""Rows of each source that are planned already and read again when the plan grows."""


class Planned:
    """The ids, rows and prompts of plan/ before it is extended; nothing when `before` is None."""

    def __init__(self, run: RunDir, before: PlanRequest | None) -> None:
        self._before = before
        self._ids: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self.tags: npt.NDArray[np.uint64] = self._ids
        self._name_tags: npt.NDArray[np.uint64] = self._ids
        self.prompts = 0
        self._names, self._ordinals = self._ids, _NO_ROWS
        self._duplicates: set[int] = set()
        self._rows: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
        if before is not None:
            self._read(run, before)

    def _read(self, run: RunDir, before: PlanRequest) -> None:
        self.prompts = len(ShardReader(run.prompts))
        self._ids = np.sort(ShardReader(run.plan, keying=sample_keying).index()["key"])
        names, ordinals, tags = [], [], []
        rows: dict[tuple[str, str], list[int]] = {}
        for old in read_plan(run):
            name = key_hash(_prompt_name(old.category, old.source, old.row, old.turn))
            names.append(name)
            if old.skip.startswith("duplicate:"):
                self._duplicates.add(name)
            ordinals.append(old.prompt)
            tags.append(prompt_tag(old.prompt_hash))
            if before.selects(old):
                rows.setdefault((old.category, old.source), []).append(old.row)
        order = np.argsort(np.array(names, dtype=np.uint64), kind="stable")
        self._names = np.array(names, dtype=np.uint64)[order]
        self._ordinals = np.array(ordinals, dtype=np.int64)[order]
        self.tags = np.array(tags, dtype=np.uint64)
        self._name_tags = self.tags[order]
        self._rows = {key: np.unique(found) for key, found in rows.items()}

    def to_read(self, selection: Selection, source: str, n: int) -> Selection:
        """The rows of a selection that are not planned yet, or not often enough; and some others,
        evenly spread."""
        old = self._before.parts.get(selection.part) if self._before is not None else None
        if old is None or n > old.n:
            return selection
        wanted = ~np.isin(selection.rows, self._rows.get((selection.part, source), _NO_ROWS))
        known = np.flatnonzero(~wanted)
        if wanted.any() and len(known):
            wanted[known[:: -(-len(known) // LOOKED_AT_AGAIN)]] = True
        return selection._replace(rows=selection.rows[wanted], places=selection.places[wanted])

    def ordinal(self, part: str, source: str, row: int, turn: int) -> int | None:
        """Where the prompt of this row and turn is stored already."""
        at = _find(self._names, _prompt_name(part, source, row, turn))
        return None if at is None or self._ordinals[at] < 0 else int(self._ordinals[at])

    def tag(self, part: str, source: str, row: int, turn: int) -> int | None:
        """The tag of the prompt that this row and turn was planned with; 0 for none."""
        at = _find(self._names, _prompt_name(part, source, row, turn))
        return None if at is None else int(self._name_tags[at])

    def is_duplicate(self, part: str, source: str, row: int, turn: int) -> bool:
        """Whether this row and turn was planned as one that repeats another."""
        return key_hash(_prompt_name(part, source, row, turn)) in self._duplicates

    def has(self, sample_id: str) -> bool:
        """Whether this sample is planned already."""
        return _find(self._ids, sample_id) is not None


def _prompt_name(part: str, source: str, row: int, turn: int) -> str:
    return f"{row_name(part, source, row)}.t{turn}"


def _find(hashes: npt.NDArray[np.uint64], key: str) -> int | None:
    """The last place of a key among sorted hashes: the newest line of those with one name."""
    wanted = np.uint64(key_hash(key))
    at = int(np.searchsorted(hashes, wanted, side="right")) - 1
    return at if at >= 0 and hashes[at] == wanted else None
