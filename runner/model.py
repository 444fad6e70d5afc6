"""The model as one run uses it: its tokenizer, the probed profile, one mode, one sampling."""

import msgspec

from runner.config import Config
from runner.errors import ConfigError
from runner.modelfiles import ModelFiles
from runner.prompts.shape import Conversation, RowFault
from runner.records import ModeProfile, Prompt, SamplingParams, TokenProfile
from runner.render import RenderFault, Tokenizer, facts_of, load_tokenizer, probe
from runner.rundir import RunDir, replace_file


class RunModel:
    """Renders prompts and says what is sent with them. Loading it takes seconds.

    Raises:
        MachineError: the tokenizer cannot be loaded.
        ConfigError: hints contradict it, or a mode's switch has no effect.
    """

    def __init__(self, config: Config, files: ModelFiles) -> None:
        self._config = config
        self._files = files
        self.tokenizer: Tokenizer = load_tokenizer(
            files.folder or files.id,
            revision=config.model.revision,
            trust_remote_code=config.model.trust_remote_code,
        )
        self.profile: TokenProfile = probe(
            self.tokenizer, facts_of(files.folder), config.model.modes, config.model.hints
        )

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
            "weights": self._files.fingerprint,
        }

    def render(self, prompt: Conversation | Prompt) -> list[int]:
        """Ids to send. Raises RenderFault."""
        return self.tokenizer.render(prompt.messages, prompt.tools, self.mode.template_kwargs)

    def count_tokens(self, conversation: Conversation) -> int:
        """Prompt tokens, for the plan. Raises RowFault for one that cannot be rendered."""
        try:
            return len(self.render(conversation))
        except RenderFault as fault:
            raise RowFault(fault.reason, fault.detail) from fault

    def probe_ids(self) -> list[int]:
        """A short fixed prompt for the first request to a server."""
        greeting = [{"role": "user", "content": "Hi"}]
        return self.tokenizer.render(greeting, [], self.mode.template_kwargs)

    def keep_in(self, run: RunDir) -> None:
        """Store tokenizer and profile in the run, so that it can be read without the model."""
        self.tokenizer.save(run.tokenizer)
        replace_file(run.profile_json, msgspec.json.encode(self.profile))


def check_world(before: dict[str, str], now: dict[str, str], accepted: list[str]) -> None:
    """Refuse to go on when tokenizer, template or weights are not those that the run began with.

    Raises:
        ConfigError: something changed that `resume.accept` does not name.
    """
    changed = [name for name in now if name in before and before[name] != now[name]]
    refused = [name for name in changed if name not in accepted]
    if refused:
        raise ConfigError(
            "The world changed under this run: going on would mix two kinds of data.",
            where=", ".join(refused),
            found="; ".join(f"{name} {now[name][:12]}" for name in refused),
            allowed="; ".join(f"{name} {before[name][:12]}" for name in refused),
            next_step=f"task_name=NAME begins another run; resume.accept=[{','.join(refused)}] "
            "goes on and records it",
        )
