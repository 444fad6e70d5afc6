"""The runs that are exported, opened for reading: shards, profile, prompts and tokenizer."""

import datetime
from functools import cached_property
from typing import NamedTuple

import msgspec

from runner.errors import ConfigError
from runner.keying import sample_keying
from runner.ledger import open_samples
from runner.records import ModeProfile, Prompt, TokenProfile
from runner.render import Tokenizer, load_tokenizer
from runner.rundir import RunDir
from runner.shards import ShardReader


class RunInput(NamedTuple):
    """One run to export, with the verdict set that decides about its samples.

    `name` is its run id, `model` the name of its model ("" if it is not known), `identity` the flat
    identity of run.json.
    """

    run: RunDir
    name: str
    model: str
    verdict_set: str
    profile: TokenProfile
    identity: dict[str, object] = {}
    trust_remote_code: bool = False


class Source:
    """One run, opened. The samples are a snapshot: what a live run adds later is not seen.

    `current` tells of each line of `samples` whether it counts.
    """

    def __init__(self, given: RunInput, ordinal: int) -> None:
        self.given = given
        self.ordinal = ordinal
        self.samples, self.current = open_samples(given.run)
        self.verdicts = ShardReader(given.run.verdicts(given.verdict_set), keying=sample_keying)

    @property
    def profile(self) -> TokenProfile:
        return self.given.profile

    def mode(self, name: str) -> ModeProfile:
        """The profile of a mode; one that the profile does not have leaves all to the model."""
        unknown = ModeProfile(template_kwargs={}, generation_prompt=[], think="none")
        return self.profile.modes.get(name, unknown)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The run's own tokenizer with its frozen date. Raises MachineError."""
        given = self.given
        tokenizer = load_tokenizer(given.run.tokenizer, trust_remote_code=given.trust_remote_code)
        date = self.profile.date
        return tokenizer.at(datetime.date.fromisoformat(date)) if date else tokenizer

    def prompt(self, ordinal: int) -> Prompt | None:
        """The prompt with this number under prompts/; None where there is none."""
        if not 0 <= ordinal < len(self._prompts.index()):
            return None
        return msgspec.json.decode(self._prompts.at(ordinal), type=Prompt)

    @cached_property
    def _prompts(self) -> ShardReader:
        return ShardReader(self.given.run.prompts, keying=lambda line: ("", 0))

    def __repr__(self) -> str:
        return f"Source({self.given.name})"


def open_sources(runs: list[RunInput]) -> list[Source]:
    """Open the runs in their order.

    Raises:
        ConfigError: a run is named twice.
        DamagedShard, MachineError: a run cannot be read.
    """
    paths = [given.run.path.resolve() for given in runs]
    for given, path in zip(runs, paths, strict=True):
        if paths.count(path) > 1:
            raise ConfigError(
                "A run is named twice, so its samples would be there twice.",
                where="RUN",
                found=str(given.run.path),
                next_step="name each run once",
            )
    return [Source(given, ordinal) for ordinal, given in enumerate(runs)]


def check_one_tokenizer(sources: list[Source]) -> None:
    """Refuse to mix ids of different tokenizers. Raises ConfigError."""
    first = sources[0].profile
    for source in sources[1:]:
        if source.profile.tokenizer_sha256 != first.tokenizer_sha256:
            raise ConfigError(
                "These runs have different tokenizers, so their ids mean different things.",
                where="RUN",
                found=f"{sources[0].given.name} and {source.given.name}",
                next_step="export them apart; `--to messages` can join them, since it holds text",
            )
