"""All that is known of a run before its directory is entered. Making it reads, and writes nothing.

Every error here is a ConfigError or a MachineError met before anything was started.
"""

from pathlib import Path
from typing import Any

from runner.config import Config
from runner.config.secrets import shown_overrides
from runner.gates import check_gates, check_rates
from runner.identity import identity_of
from runner.modelfiles import ModelFiles, find_model
from runner.plugins import load_validators
from runner.preflight import check_stop_on
from runner.prompts.exclusion import Exclusion
from runner.prompts.parts import open_parts
from runner.rundir import RunDir
from runner.samerun import find_directory
from runner.servers.endpoint import ModelFacts


class Resolved:
    """A config with its plugins loaded, its files found, and its run directory named."""

    def __init__(self, config: Config, overrides: list[str]) -> None:
        self.config = config
        self.overrides = shown_overrides(overrides)
        self.validators = load_validators(config.validators)
        reasons = {reason for one in self.validators for reason in one.severity}
        check_stop_on(config.prompts.stop_on)
        check_gates(config.gates, list(config.category.parts), reasons)
        rates = {name: part.expected.rates for name, part in config.category.parts.items()}
        check_rates(rates, reasons)
        self.model = find_model(config.model)
        self.parts = open_parts(config)
        self.exclusion = Exclusion(config.prompts.exclude)
        self.identity = identity_of(config, self._facts())
        folder = Path(config.paths.outputs).expanduser().resolve() / config.task_name
        self.run = RunDir(find_directory(folder, config, self.identity))

    def _facts(self) -> dict[str, Any]:
        mode = self.config.model.modes[self.config.mode.name]
        excluded = {"exclude": self.exclusion.identity} if self.exclusion else {}
        return {
            **self.model.identity,
            **excluded,
            "template_kwargs": mode.template_kwargs,
            "prompts": {name: part.identity for name, part in self.parts.items()},
        }

    @property
    def names(self) -> dict[str, str]:
        """What people call this run's settings, for lists and tags."""
        config = self.config
        return {
            "task": config.task_name,
            "model": config.model.name,
            "category": config.category.name,
            "mode": config.mode.name,
            "sampling": config.sampling.name,
        }


def model_facts(config: Config, files: ModelFiles) -> ModelFacts:
    """What a server must know of the model."""
    return ModelFacts(
        model_path=files.source,
        gguf_path=str(files.gguf) if files.gguf else None,
        context_length=config.model.context_length,
        trust_remote_code=config.model.trust_remote_code,
        revision="" if files.folder is not None else (config.model.revision or ""),
    )
