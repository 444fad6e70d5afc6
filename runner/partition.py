"""`partition.index` of `partition.of`: N processes or nodes make one run with no talk between them.

Each takes the rows whose id hash falls to it, so that all samples and turns of a row (which share a
prefix in the server's cache) stay together. A row belongs to the same partition however large the
plan is. The parts have the same identity and a directory each; `runs merge` makes one run of them.
"""

from collections.abc import Mapping

import numpy as np

from runner.config import Partition
from runner.gather import PartSelection, Selection, row_name
from runner.prompts.parts import PromptPart
from runner.shards import key_hash


def own_rows(
    selected: Mapping[str, PartSelection], parts: Mapping[str, PromptPart], partition: Partition
) -> Mapping[str, PartSelection]:
    """What this process plans of what all of them together do."""
    if partition.of == 1:
        return selected
    return {
        name: one._replace(
            sources=[_own(s, parts[name].sources[s.source].name, partition) for s in one.sources]
        )
        for name, one in selected.items()
    }


def _own(selection: Selection, source: str, partition: Partition) -> Selection:
    own = np.array(
        [is_own(row_name(selection.part, source, r), partition) for r in selection.rows.tolist()],
        dtype=bool,
    )
    return selection._replace(rows=selection.rows[own], places=selection.places[own])


def is_own(row: str, partition: Partition) -> bool:
    """Whether the row with this name (`CATEGORY-ROW`) falls to this partition."""
    return key_hash(row) % partition.of == partition.index
