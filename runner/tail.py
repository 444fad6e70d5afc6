"""Long answers first towards the end, so that the last ones do not run alone on an empty server.

Samples are sent in the order of the plan, in which every prefix is a fair sample of the mix. Only
the last window of it is sent by expected length, longest first: what ends last is then short. The
window is bounded, so a run that stops within it is off the fair mix by less than a window, and one
that stops before it not at all.

What is expected of a category is what was measured so far, or else what its config says.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from runner.config import Config
from runner.permits import Permits
from runner.plan import part_budgets
from runner.recorder import Recorder
from runner.records import OwedSample

TURNOVERS = 16
"""The window in times the requests in flight: the long ones are under way, and as much short work
is left as the longest of them takes. Answers ten times as long as the mean are common."""
LARGEST_SHARE = 4
"""The window is never more than one such part of what is owed."""
MEASURED = 20
"""Answers of a category from which its mean is believed."""


def window_size(in_flight: int, owed: int) -> int:
    """How many samples at the end may be sent in another order."""
    return min(TURNOVERS * in_flight, owed // LARGEST_SHARE)


def long_ones_first(
    planned: Iterator[OwedSample],
    window: Callable[[], int],
    expected: Callable[[], Mapping[str, float]],
) -> Iterator[OwedSample]:
    """The same samples; the last `window()` of them by `expected()` tokens of their category, both
    asked when they are needed. Samples of one category stay in their order, so those of one row
    stay together."""
    held: deque[OwedSample] = deque()
    for sample in planned:
        held.append(sample)
        while len(held) > window():
            yield held.popleft()
    lengths = expected()
    yield from sorted(held, key=lambda sample: -lengths.get(sample.category, 0.0))


def expected_lengths(
    measured: Mapping[str, tuple[int, int]], told: Mapping[str, int | None]
) -> dict[str, float]:
    """Output tokens to expect by category. `measured` is (tokens, answers), `told` the config's; a
    category of which nothing is known is taken for the mean of the others."""
    known = {name: float(tokens) for name, tokens in told.items() if tokens is not None}
    known |= {
        name: tokens / answers
        for name, (tokens, answers) in measured.items()
        if answers >= MEASURED or (answers and name not in known)
    }
    mean = sum(known.values()) / len(known) if known else 0.0
    return {name: known.get(name, mean) for name in {*told, *measured}}


def rearranged(
    planned: Iterator[OwedSample], config: Config, recorder: Recorder, permits: Permits
) -> Iterator[OwedSample]:
    """What is owed, in the order in which it is sent. With a budget it stays as it was planned:
    where the budget ends nobody knows, and what it cuts off must be a fair sample too."""
    if config.budget.output_tokens or part_budgets(config):
        return planned
    owed = recorder.counts.pending
    told = {name: part.expected.output_tokens for name, part in config.category.parts.items()}

    def expected() -> dict[str, float]:
        measured = list(recorder.stats.categories.items())  # called in the rendering thread
        return expected_lengths({n: (c.output_tokens, c.samples) for n, c in measured}, told)

    return long_ones_first(planned, lambda: window_size(permits.number, owed), expected)
