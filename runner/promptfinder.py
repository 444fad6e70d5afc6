"""The prompt of a sample, found again from the run directory: by the plan, then by its place."""

from collections.abc import Iterable

import msgspec
import numpy as np

from runner.ledger import read_plan
from runner.records import Prompt, Sample
from runner.rundir import RunDir
from runner.shards import ShardReader, key_hash


class PromptFinder:
    """Holds 16 bytes for each planned sample. For one thread at a time."""

    def __init__(self, run: RunDir) -> None:
        pairs = ((key_hash(p.sample_id), p.prompt) for p in read_plan(run) if p.prompt >= 0)
        found = np.fromiter(pairs, dtype=np.dtype([("key", "<u8"), ("prompt", "<i8")]))
        found.sort(order="key")
        self._keys, self._ordinals = found["key"], found["prompt"]
        self._prompts = ShardReader(run.prompts, keying=lambda _line: ("", 0))
        self._decoder = msgspec.json.Decoder(Prompt)

    def find(self, sample: Sample) -> Prompt | None:
        """Its prompt, None when the plan does not know the sample."""
        ordinal = self._ordinal(sample)
        return None if ordinal < 0 else self._decoder.decode(self._prompts.at(ordinal))

    def find_all(self, samples: Iterable[Sample]) -> dict[str, Prompt]:
        """Prompts by sample id, read in their order on disk: each frame is decoded once."""
        wanted = sorted((self._ordinal(sample), sample.sample_id) for sample in samples)
        return {
            sample_id: self._decoder.decode(self._prompts.at(ordinal))
            for ordinal, sample_id in wanted
            if ordinal >= 0
        }

    def _ordinal(self, sample: Sample) -> int:
        key = np.uint64(key_hash(sample.sample_id))
        at = int(np.searchsorted(self._keys, key))
        return int(self._ordinals[at]) if at < len(self._keys) and self._keys[at] == key else -1
