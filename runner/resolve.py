"""All that is known of a run before its directory is entered. Making it reads, and writes nothing.

Every error here is a ConfigError or a MachineError met before anything was started.
"""

from pathlib import Path
from typing import Any

from runner.config import Config
from runner.gates import check_gates
from runner.identity import digest_of, identity_of, run_name
from runner.modelfiles import find_model
from runner.plugins import load_validators
from runner.prompts.source import open_sources
from runner.rundir import RunDir


class Resolved:
    """A config with its plugins loaded, its files found, and its run directory named."""

    def __init__(self, config: Config, overrides: list[str]) -> None:
        self.config = config
        self.overrides = overrides
        self.validators = load_validators(config.validators)
        check_gates(config.gates, list(config.category.parts))
        self.model = find_model(config.model)
        self.sources = open_sources(config)
        self.identity = identity_of(config, self._facts())
        self.run = RunDir(
            Path(config.paths.outputs).expanduser().resolve()
            / config.task_name
            / run_name(config, digest_of(self.identity))
        )

    def _facts(self) -> dict[str, Any]:
        mode = self.config.model.modes[self.config.mode.name]
        return {
            **self.model.identity,
            "template_kwargs": mode.template_kwargs,
            "prompts": {name: source.fingerprint for name, source in self.sources.items()},
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
