"""The order of sending: the canary's wave, judged, then the bulk, with the breaker's recovery."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

from runner.config import Canary
from runner.generate import Feed, Sender
from runner.records import OwedSample
from runner.recovery import Recovery
from runner.serving import Serving
from runner.shortcanary import ShortCanary
from runner.watch import Tripped, Watch, bad_answers

LOOK_AHEAD = 4096
"""Planned samples among which the canary looks for one of each category."""


def spread_first(
    planned: Iterator[OwedSample], count: int, categories: int
) -> Iterator[OwedSample]:
    """The same samples, those for the canary first: `count` of them, spread over the categories."""
    share = max(1, count // max(1, categories))
    held: list[OwedSample] = []
    taken: Counter[str] = Counter()
    chosen: set[int] = set()
    for sample in planned:
        if taken[sample.category] < share and len(chosen) < count:
            taken[sample.category] += 1
            chosen.add(len(held))
        held.append(sample)
        if len(held) >= LOOK_AHEAD or sum(taken.values()) >= min(count, share * categories):
            break
    for position in range(len(held)):
        if len(chosen) < count:
            chosen.add(position)
    first = [held[i] for i in sorted(chosen)]
    rest = (sample for i, sample in enumerate(held) if i not in chosen)
    return chain(first, rest, planned)


class Waves:
    """What is sent, in order. One for an attempt."""

    def __init__(
        self,
        sender: Sender,
        feed: Feed,
        watch: Watch,
        recovery: Recovery,
        decode: Callable[[list[int]], str],
    ) -> None:
        self._sender = sender
        self._feed = feed
        self._watch = watch
        self._recovery = recovery
        self._decode = decode

    async def canary(self, canary: Canary) -> None:
        """Send the first wave and judge it. Raises BadAnswers."""
        if not canary.count:
            return
        try:
            await self._sender.wave(self._feed, canary.count)
            self._watch.check_canary(canary)
        except Tripped as trip:
            raise bad_answers("The canary stopped the run", trip.alarm, self._decode) from trip

    async def some(self, count: int) -> None:
        """Send `count` more and wait for their ends. Raises BadAnswers at the first alarm."""
        try:
            await self._sender.wave(self._feed, count)
        except Tripped as trip:
            raise bad_answers("The measured wave stopped", trip.alarm, self._decode) from trip

    async def bulk(self) -> None:
        """Send all the rest. Raises BadAnswers when the breaker trips and the server stays bad."""
        while True:
            try:
                await self._sender.wave(self._feed)
                await self._sender.suspects()
            except Tripped as trip:
                await self._recovery.after(trip.alarm)
            else:
                return


def open_waves(
    serving: Serving,
    sender: Sender,
    feed: Feed,
    watch: Watch,
    short_canary: ShortCanary,
    decode: Callable[[list[int]], str],
    *,
    say: Callable[[str], None],
) -> Waves:
    """The waves of one attempt; from now on a server that was brought back is asked first."""
    serving.check_restarted = short_canary.check_restarted
    recovery = Recovery(serving, short_canary, watch, decode, say=say)
    return Waves(sender, feed, watch, recovery, decode)
