"""What a drafter's vocabulary would cover of a run: which ids were generated, and how often.

Counted over the output ids of samples that are current, judged and not rejected: those that an
export takes by default. Of a large run only every n-th frame is read, since a million tokens tell
the shares as well as all do; the exact figures are those of `runs export --to vocabulary`.
"""

import math
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from runner.export.coverage import Counts
from runner.keying import contains, last_of_each_key, rejected, sample_keying, try_pairs
from runner.ledger import open_samples
from runner.rundir import RunDir
from runner.shards import Index, ShardReader

READ_BYTES = 60 * 2**20
"""About what is read of the samples: some ten million tokens, a few seconds."""


class _Line(msgspec.Struct):
    category: str
    output_ids: list[int]


class Vocabulary(NamedTuple):
    """Supervised tokens by category and id; `samples` were counted, `of` there are."""

    counts: dict[str, Counts]
    samples: int
    of: int

    @property
    def tokens(self) -> int:
        return sum(int(counts.sum()) for counts in self.counts.values())


def read_vocabulary(
    run: RunDir, verdict_set: str, *, ids: int, most_bytes: int = READ_BYTES
) -> Vocabulary:
    """Count. `ids` is how many the model has; others are left out. Raises DamagedShard."""
    samples, current = open_samples(run)
    verdicts = ShardReader(run.verdicts(verdict_set), keying=sample_keying).index()
    good = verdicts[last_of_each_key(verdicts) & ~rejected(verdicts)]
    index = samples.index()
    wanted = np.flatnonzero(current & contains(try_pairs(good), try_pairs(index)))
    read = _thinned(index, wanted, most_bytes)
    counts: dict[str, Counts] = {}
    decoder = msgspec.json.Decoder(_Line)
    for line in map(decoder.decode, samples.lines_at(read)):
        own = counts.setdefault(line.category, np.zeros(ids, dtype=np.int64))
        found = np.array(line.output_ids, dtype=np.int64)
        np.add.at(own, found[(found >= 0) & (found < ids)], 1)
    return Vocabulary(dict(sorted(counts.items())), len(read), len(wanted))


def _thinned(index: Index, wanted: npt.NDArray[np.int64], most_bytes: int) -> npt.NDArray[np.int64]:
    """The lines of every n-th frame, so that they are about `most_bytes`."""
    step = math.ceil(int(index["length"][wanted].sum(dtype=np.int64)) / most_bytes)
    if step <= 1:
        return wanted
    places = index[["shard", "frame"]][wanted]
    frames = np.unique(places, return_inverse=True)[1]
    kept: npt.NDArray[np.int64] = wanted[frames % step == 0]
    return kept
