"""samples/superseded.jsonl: samples that no longer count, one line each, by id and `try`.

The shards are never rewritten. A sample that is asked for again keeps its line; this file names it,
and its successor comes under the same id with `try` + 1. Whoever reads samples, verdicts or figures
of a run sees current ones only: the last with its id that is not named here.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from runner.keying import Hashes, Mask, last_of_each_key, tries
from runner.records import Record
from runner.rundir import RunDir, append_lines
from runner.shards import Index, key_hash


class Superseded(Record, frozen=True, kw_only=True, rename={"try_": "try"}):
    """One line: this try of this sample no longer counts, and why."""

    sample_id: str
    try_: int
    prompt_hash: str
    reason: str
    at: float


class SupersededTries:
    """For each id that was superseded, up to which try. Empty for most runs."""

    def __init__(self, found: dict[int, int]) -> None:
        keys = np.fromiter(found, dtype=np.uint64, count=len(found))
        order = np.argsort(keys)
        self._keys: Hashes = keys[order]
        values = np.fromiter(found.values(), dtype=np.int64, count=len(found))
        self._tries: npt.NDArray[np.int64] = values[order]

    def __len__(self) -> int:
        return len(self._keys)

    def next_tries(self, keys: Hashes) -> npt.NDArray[np.int64]:
        """The try as which each id is asked for: 0 unless something was superseded."""
        if not len(self._keys):
            return np.zeros(len(keys), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        named = self._keys[at] == keys
        found: npt.NDArray[np.int64] = np.where(named, self._tries[at] + 1, 0)
        return found

    def current(self, index: Index) -> Mask:
        """Which lines of samples or verdicts count."""
        mask: Mask = last_of_each_key(index)
        if len(self):
            mask &= tries(index) >= self.next_tries(index["key"])
        return mask


def read_superseded(run: RunDir) -> SupersededTries:
    """All that the file names. A torn last line of a crash is left out: it counts still."""
    found: dict[int, int] = {}
    for one in list_superseded(run):
        key = key_hash(one.sample_id)
        found[key] = max(found.get(key, 0), one.try_)
    return SupersededTries(found)


def list_superseded(run: RunDir) -> list[Superseded]:
    """The lines of the file."""
    if not run.superseded.is_file():
        return []
    decoder, found = msgspec.json.Decoder(Superseded), []
    with run.superseded.open("rb") as file:
        for line in file:
            try:
                found.append(decoder.decode(line))
            except msgspec.DecodeError:  # torn by a crash: never took effect
                continue
    return found


def supersede(run: RunDir, named: list[Superseded]) -> None:
    """Name samples that no longer count; durable when it returns. Under the run's lock."""
    append_lines(run.superseded, named)
