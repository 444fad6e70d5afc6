"""The model as one run uses it: its tokenizer, the probed profile, one mode, one sampling.

What takes seconds to load is a `LoadedModel`, which the jobs of one process may share.
"""

from collections.abc import Iterable, Iterator

import msgspec

from runner.config import Config, SourceKind
from runner.modelfiles import ModelFiles
from runner.profile import facts_of, frozen_date, probe
from runner.records import Expected, ModeProfile, SamplingParams, TokenProfile
from runner.render import RenderFault, Tokenizer, load_tokenizer
from runner.rendering import (
    Asked,
    Rendered,
    Renderer,
    RenderPool,
    RenderSettings,
    in_turn,
    worker_count,
)
from runner.rundir import RunDir, replace_file


class LoadedModel:
    """A model's tokenizer, its profile, and the processes that render with it. Loading takes
    seconds. Nothing in it belongs to a run, so one run after the other may use it.

    Raises:
        MachineError: the tokenizer cannot be loaded.
        ConfigError: hints contradict it, or a mode's switch has no effect.
    """

    def __init__(self, config: Config, files: ModelFiles) -> None:
        self._key = _loaded_from(config, files)
        self.tokenizer: Tokenizer = load_tokenizer(
            files.folder or files.id,
            revision=config.model.revision,
            trust_remote_code=config.model.trust_remote_code,
        ).at(frozen_date(config.model.hints))
        self.profile: TokenProfile = probe(
            self.tokenizer, facts_of(files.folder), config.model.modes, config.model.hints
        )
        self._pool: RenderPool | None = None
        self._pool_of: tuple[RenderSettings, int] | None = None

    def serves(self, config: Config, files: ModelFiles) -> bool:
        """Whether loading it for these would give the same. (A hub model by its revision: what a
        branch is at the first job, it is for all jobs of a process.)"""
        return self._key == _loaded_from(config, files)

    def pool(self, settings: RenderSettings, workers: int) -> RenderPool:
        """Processes that render by these settings, the same ones while they are asked for."""
        if self._pool is None or self._pool_of != (settings, workers) or self._pool.broken:
            self.close()
            self._pool, self._pool_of = RenderPool(settings, workers), (settings, workers)
        return self._pool

    def close(self) -> None:
        """End the rendering processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _loaded_from(config: Config, files: ModelFiles) -> tuple[str, ...]:
    """All that decides what is loaded and probed, a folder's content included."""
    model = config.model
    read = (files.source, files.fingerprint, model.revision, model.trust_remote_code)
    return tuple(repr(one) for one in (*read, model.modes, model.hints))


class RunModel:
    """Renders prompts and says what is sent with them. `loaded` is the model, when there already
    is one that serves; whoever loaded it closes it.

    Raises: as `LoadedModel`.
    """

    def __init__(
        self, config: Config, files: ModelFiles, loaded: LoadedModel | None = None
    ) -> None:
        self._config = config
        self._files = files
        self._loaded = loaded or LoadedModel(config, files)
        self._is_own = loaded is None
        self.tokenizer, self.profile = self._loaded.tokenizer, self._loaded.profile
        self.renderer = Renderer(self.tokenizer, self.render_settings)
        self._workers = worker_count(config.prompts.workers, is_fast=self.tokenizer.is_fast)

    @property
    def mode(self) -> ModeProfile:
        """The profile of the run's mode."""
        return self.profile.modes[self._config.mode.name]

    @property
    def sampling(self) -> SamplingParams:
        """What goes with every request: the config's values, and every stop id there is."""
        chosen = self._config.sampling
        names = [f.name for f in msgspec.structs.fields(SamplingParams)]
        values = {name: getattr(chosen, name) for name in names if name != "stop_token_ids"}
        return SamplingParams(**values, stop_token_ids=self.profile.stop_ids)

    @property
    def world(self) -> dict[str, str]:
        """Hashes of what must not change under a run."""
        return {
            "template": self.profile.template_sha256,
            "tokenizer": self.profile.tokenizer_sha256,
            "weights": self._files.weights,
            **({"date": self.profile.date} if self.profile.date else {}),
        }

    @property
    def render_settings(self) -> RenderSettings:
        """What decides what a prompt renders to."""
        files, profile = self._files, self.profile
        think = [i for i in (profile.think_open, profile.think_close) if i is not None]
        return RenderSettings(
            source=files.source,
            is_folder=files.folder is not None,
            revision=self._config.model.revision,
            trust_remote_code=self._config.model.trust_remote_code,
            date=self.tokenizer.date.isoformat(),
            template_kwargs=self.mode.template_kwargs,
            policy=self._config.prompts.special_tokens.value,
            markers=think,
        )

    def render(self, prompt: Asked) -> list[int]:
        """Ids to send, one prompt at once. Raises RenderFault."""
        return self.renderer.render(prompt).ids

    def ahead(self, prompts: Iterable[Asked]) -> Iterator[Rendered | RenderFault]:
        """Prompts to ids, in order: here, or in worker processes for a slow tokenizer. For one
        caller at a time."""
        if not self._workers:
            return in_turn(self.renderer, prompts)
        return self._loaded.pool(self.render_settings, self._workers).ahead(prompts)

    def close(self) -> None:
        """End the rendering processes, if there are any and no other run may use them."""
        if self._is_own:
            self._loaded.close()

    def probe_ids(self) -> list[int]:
        """A short fixed prompt for the first request to a server."""
        greeting = [{"role": "user", "content": "Hi"}]
        return self.tokenizer.render(greeting, [], self.mode.template_kwargs)

    def keep_in(self, run: RunDir) -> None:
        """Store tokenizer and profile in the run, so that it can be read without the model."""
        self.tokenizer.save(run.tokenizer)
        replace_file(run.profile_json, msgspec.json.encode(self.profile))


def expected_of(config: Config) -> dict[str, Expected]:
    """What the config expects of each category.

    Lengths are expected of the data set that a part stands for; the bundled prompts are short ones
    for trying things out, and nothing is expected of theirs.
    """
    bundled = config.source.kind is SourceKind.bundled
    return {
        name: Expected(
            rates=dict(part.expected.rates),
            shortest=part.expected.shortest,
            output_tokens=None if bundled else part.expected.output_tokens,
        )
        for name, part in config.category.parts.items()
    }
