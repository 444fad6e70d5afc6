"""Which settings are secret, by their names, and a config without them.

A key belongs into the environment (RAWTOK_SERVER_API_KEY), not into a config. One that is set there
all the same is shown nowhere: not in the run's config, its overrides, tracking or launch records.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.config.schema import Config

SECRET_NAME = re.compile(
    r"(^|[_-])(api_?keys?|key|token|secret|password|passwd|credentials?)$", re.I
)
"""Names of flags and environment variables whose values are not shown to anybody."""
MASK = "***"


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping whose secret values are masked."""
    return {name: MASK if SECRET_NAME.search(name) else value for name, value in values.items()}


def without_secrets(config: Config) -> Config:
    """The config as it may be shown."""
    server = config.server
    shown = replace(server, env=masked(server.env), flags=masked(server.flags))
    return replace(config, server=shown)


def shown_overrides(overrides: Sequence[str]) -> list[str]:
    """Overrides (`a.b=value`) as they may be shown."""
    return [_shown(word) for word in overrides]


def _shown(override: str) -> str:
    name, equals, _ = override.partition("=")
    last = name.rpartition(".")[2]
    return f"{name}={MASK}" if equals and SECRET_NAME.search(last) else override
