"""`resume.reuse`: samples of other runs that this one would have made the same way.

Where only sampling.max_new_tokens grew, an answer that stopped by itself is one that the longer run
could have given: it is taken over as it is, and its `run_id`, `attempt` and
`requested_max_new_tokens` go on telling where it came from. Answers that were cut are owed.

Not promised: that the mixture is that of a fresh run. A prompt whose answer was cut is asked again
from the start and may stop earlier this time, so sampled answers lean a little to the short side;
with greedy sampling there is no such lean.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from runner.config import Config
from runner.errors import ConfigError
from runner.keying import contains, prompt_pairs, tag_of
from runner.ledger import open_samples, owed
from runner.promptfinder import PromptFinder
from runner.records import Prompt, Record, Sample
from runner.rundir import RunDir, RunState
from runner.samerun import PROMPTS, is_same_run
from runner.shards import key_hash
from runner.world import Change, changes, table

GROWN = "sampling.max_new_tokens"
Identity = dict[str, Any]


class Taken(Record, frozen=True, kw_only=True):
    """A line of the attempt's reused.jsonl: how many samples came from one run."""

    run_id: str
    path: str
    samples: int
    cut: int
    """Those that are owed here and were cut there."""

    def __str__(self) -> str:
        return f"reused {self.samples:,} samples of {self.run_id}; {self.cut:,} were cut there"


def take_over(
    run: RunDir,
    config: Config,
    state: RunState,
    accept: Callable[[Sample, Prompt], object],
) -> Iterator[Taken]:
    """Hand every sample that can be reused to `accept`; yields after each run, when what it gave
    must become durable before the next is looked at.

    Raises:
        ConfigError: there is no such run, or it differs in more than max_new_tokens.
    """
    for other in others_of(config.resume.reuse, run):
        check_reusable(run, other, state)
        taken = cut = 0
        for sample, prompt in reusable(run, other, max_attempts=config.client.retry.max_attempts):
            if sample.finish == "length" or prompt is None:
                cut += 1
            else:
                accept(sample, prompt)
                taken += 1
        yield Taken(run_id=other.read().run_id, path=str(other.path), samples=taken, cut=cut)


def check_reusable(run: RunDir, other: RunDir, state: RunState) -> None:
    """Raises ConfigError unless the other run differs in nothing but a smaller max_new_tokens."""
    theirs = other.read()
    ours = state.identity
    alike = is_same_run({**theirs.identity, GROWN: 0}, {**ours, GROWN: 0})
    grown = theirs.identity.get(GROWN, 0) <= ours.get(GROWN, 0)
    changed = changes(theirs.world, state.world)
    if alike and grown and not changed and other.path != run.path:
        return
    rows = changed + [
        Change(name=name, was=str(theirs.identity.get(name, "")), now=str(ours.get(name, "")))
        for name in sorted(set(theirs.identity) | set(ours))
        if theirs.identity.get(name) != ours.get(name) and (name != GROWN or not grown)
    ]
    raise ConfigError(
        "The samples of this run cannot be reused.\n" + table(rows),
        where="resume.reuse",
        found=str(other.path),
        allowed=f"a run that differs only in a smaller {GROWN} (and in parts of {PROMPTS})",
    )


def reusable(
    run: RunDir, other: RunDir, *, max_attempts: int
) -> Iterator[tuple[Sample, Prompt | None]]:
    """The samples of another run that are owed in this one: same id, same prompt. Those that were
    cut are among them; whoever takes them over leaves those out."""
    wanted = (
        (key_hash(one.sample_id), tag_of(one.prompt_hash))
        for one in owed(run, max_attempts=max_attempts, retry_failed=True)
        if one.try_ == 0
    )
    rows = np.fromiter(wanted, dtype=np.dtype([("key", "<u8"), ("tag", "<u8")]))
    reader, current = open_samples(other)
    matching = current & contains(prompt_pairs(rows), prompt_pairs(reader.index()))
    prompts = PromptFinder(run)
    decoder = msgspec.json.Decoder(Sample)
    for line in reader.lines_at(np.flatnonzero(matching)):
        sample = decoder.decode(line)
        yield msgspec.structs.replace(sample, try_=0), prompts.find(sample)


def others_of(names: Sequence[str], run: RunDir) -> list[RunDir]:
    """The run directories that `resume.reuse` names, by path or by name beside this run.

    Raises:
        ConfigError: there is no such run.
    """
    found = []
    for name in names:
        near = [RunDir(run.path.parent / name), RunDir(run.path.parent.parent / name)]
        there = [
            one
            for one in (RunDir(Path(name).expanduser().resolve()), *near)
            if one.run_json.is_file()
        ]
        if not there:
            raise ConfigError(
                "There is no such run to reuse.",
                where="resume.reuse",
                found=name,
                allowed="a run directory, or the name of one in the same task",
            )
        found.append(there[0])
    return found
