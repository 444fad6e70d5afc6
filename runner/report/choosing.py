"""Which samples a report shows: the extremes, some at random, and examples of every reason.

One pass over all judgements with bounded memory. What is random is by hash: the same run gives the
same report.
"""

from collections.abc import Iterable
from typing import NamedTuple

from runner.records import Judgement
from runner.report.data import SEVERITIES, Cell
from runner.stats import Stats, failed_checks
from runner.view.picks import Ask, Lowest, Pick, Selection, candidate_of, sample_hash, union

EXTREMES = 6
RANDOM = 10
EXAMPLES = 3
"""Of each reason in each category."""
SAMPLES_MAX = 240
"""Beyond it the examples of the least serious reasons are left out."""
SEED = 0


class Chosen(NamedTuple):
    """`picks` in the order in which they are shown; `examples` also holds ids beyond them."""

    stats: Stats
    picks: list[Pick]
    examples: dict[Cell, list[str]]


def choose_samples(judgements: Iterable[Judgement]) -> Chosen:
    """Fold all judgements."""
    asks = (Ask("shortest", EXTREMES), Ask("longest", EXTREMES), Ask("random", RANDOM))
    selections = [Selection(ask, seed=SEED, limit=0) for ask in asks]
    stats = Stats()
    cells: dict[Cell, Lowest] = {}
    for judgement in judgements:
        stats.add(judgement)
        candidate = candidate_of(judgement)
        for selection in selections:
            selection.offer(candidate)
        for validator, reason, severity in failed_checks(judgement):
            cell = Cell(judgement.category, validator, reason, severity)
            lowest = cells.setdefault(cell, Lowest(EXAMPLES))
            lowest.offer(sample_hash(SEED, judgement.sample_id), judgement.sample_id)
    examples = {cell: cells[cell].items() for cell in sorted(cells, key=rank)}
    extremes = [pick for selection in selections for pick in selection.picks()]
    return Chosen(stats, union([*extremes, *_as_picks(examples)])[:SAMPLES_MAX], examples)


def rank(cell: Cell) -> tuple[int, str, str, str]:
    """Most serious first."""
    known = cell.severity in SEVERITIES
    place = SEVERITIES.index(cell.severity) if known else len(SEVERITIES)
    return (place, cell.validator, cell.reason, cell.category)


def _as_picks(examples: dict[Cell, list[str]]) -> Iterable[Pick]:
    """The first example of every cell before the second of any."""
    for turn in range(EXAMPLES):
        for cell, ids in examples.items():
            if turn < len(ids):
                yield Pick(ids[turn], (f"{cell.validator}/{cell.reason or 'broke'}",))
