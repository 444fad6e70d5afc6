"""Which samples to show, chosen in one pass over a run with bounded memory. Pure.

Each selection keeps its own ids; together they are a union in the order in which they were asked
for. A sample that several of them choose is shown once, with every reason.
"""

import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runner.records import Judgement
from runner.view.figures import plural


class Candidate(NamedTuple):
    """What a choice needs to know of a sample. `reasons` are those of its failed checks."""

    sample_id: str
    category: str
    finish: str
    output_tokens: int
    reasons: frozenset[str] = frozenset()


def candidate_of(judgement: Judgement) -> Candidate:
    """A judged sample; a check that broke has the reason "error" where it gave none."""
    failed = (v for v in judgement.verdicts.values() if v.outcome in ("fail", "error"))
    return Candidate(
        judgement.sample_id,
        judgement.category,
        judgement.finish,
        judgement.output_tokens,
        frozenset(verdict.reason or verdict.outcome.value for verdict in failed),
    )


class Ask(NamedTuple):
    """One selection as it was asked for: `kind` is an option's name, `value` its value."""

    kind: str
    value: str | int


DEFAULT_ASKS = (Ask("shortest", 2), Ask("longest", 2), Ask("random", 2))
"""What is shown when nothing is asked for."""

RANKED = ("longest", "shortest", "random")
"""Selections of N samples; the others are of all that match, up to a limit."""


@dataclass(frozen=True)
class Pick:
    """A sample to show, and why."""

    sample_id: str
    why: tuple[str, ...]


class Lowest:
    """The N items of lowest key out of any number offered; the earlier offered wins a tie."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, int, str]] = []  # largest key first: keys are negated
        self._offered = 0

    def offer(self, key: int, item: str) -> None:
        """Consider one item."""
        self._offered += 1
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (-key, -self._offered, item))
        elif self._heap and -key > self._heap[0][0]:
            heapq.heapreplace(self._heap, (-key, -self._offered, item))

    def items(self) -> list[str]:
        """The kept ones, lowest key first."""
        return [item for _, _, item in sorted(self._heap, reverse=True)]


@dataclass
class _Matching:
    """The first `limit` ids that match, and how many there are."""

    limit: int
    ids: list[str] = field(default_factory=list)
    count: int = 0

    def offer(self, sample_id: str) -> None:
        self.count += 1
        if not self.limit or len(self.ids) < self.limit:
            self.ids.append(sample_id)


class Selection:
    """One `Ask` while candidates pass by."""

    def __init__(self, ask: Ask, *, seed: int, limit: int, ids: Iterable[str] = ()) -> None:
        """`ids` are those that `id` or `row` mean."""
        self.ask = ask
        self._ids = dict.fromkeys(ids)
        self._lowest = Lowest(int(ask.value) if ask.kind in RANKED else 0)
        self._matching = _Matching(limit)
        self._key = _key_of(ask.kind, seed)

    def offer(self, candidate: Candidate) -> None:
        """Consider one sample."""
        if self.ask.kind in RANKED:
            self._lowest.offer(self._key(candidate), candidate.sample_id)
        elif self._matches(candidate):
            self._matching.offer(candidate.sample_id)

    def _matches(self, candidate: Candidate) -> bool:
        if self.ask.kind == "reason":
            return self.ask.value in candidate.reasons
        return self.ask.kind == "finish" and candidate.finish == self.ask.value

    def picks(self) -> list[Pick]:
        """What was chosen, each with its reason."""
        if self.ask.kind in RANKED:
            ids = self._lowest.items()
            what = "at random" if self.ask.kind == "random" else self.ask.kind
            return [Pick(one, (f"{what}, {n} of {len(ids)}",)) for n, one in enumerate(ids, 1)]
        if self._ids:
            return [Pick(one, (f"{self.ask.kind} {self.ask.value}",)) for one in self._ids]
        return [Pick(one, (f"{self.ask.kind} {self.ask.value}",)) for one in self._matching.ids]

    @property
    def left_out(self) -> str:
        """A sentence when the limit left some out, or when nothing matched; else ""."""
        shown, count = len(self._matching.ids), self._matching.count
        what = f"--{self.ask.kind} {self.ask.value}"
        if shown < count:
            return f"{what}: {plural(count, 'sample')}, {shown:,} shown; --limit 0 shows all"
        return "" if self.picks() else f"{what}: no sample"

    @property
    def is_empty(self) -> bool:
        """Whether nothing was chosen."""
        return not self.picks()


def _key_of(kind: str, seed: int) -> Callable[[Candidate], int]:
    """The lower the sooner chosen. Random is by hash: the same seed gives the same samples, also
    when more have come since (unless a new one is among the lowest)."""
    if kind == "shortest":
        return lambda candidate: candidate.output_tokens
    if kind == "random":
        return lambda candidate: sample_hash(seed, candidate.sample_id)
    return lambda candidate: -candidate.output_tokens


def sample_hash(seed: int, sample_id: str) -> int:
    """A number by which the lowest ones are a random choice, the same one each time."""
    digest = hashlib.blake2b(f"{seed}/{sample_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def choose(
    selections: Sequence[Selection], candidates: Iterable[Candidate], *, category: str = ""
) -> list[Pick]:
    """Let all candidates (of one category, if given) pass by all selections once."""
    for candidate in candidates:
        if not category or candidate.category == category:
            for selection in selections:
                selection.offer(candidate)
    return union([pick for selection in selections for pick in selection.picks()])


def union(picks: Iterable[Pick]) -> list[Pick]:
    """Each sample once, where it was first chosen, with all of its reasons."""
    found: dict[str, list[str]] = {}
    for pick in picks:
        found.setdefault(pick.sample_id, []).extend(pick.why)
    return [Pick(sample_id, tuple(why)) for sample_id, why in found.items()]
