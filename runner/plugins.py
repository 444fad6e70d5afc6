"""Where names in the config become objects: the schema for Hydra, and the one `instantiate` site.

Validators (and any class by `_target_`) are plugins: a mapping name -> {_target_, severity, args}.
A plugin that cannot be imported or built is a ConfigError naming the key, never a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hydra.core.config_store import ConfigStore
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from runner.config import Config
from runner.errors import ConfigError
from runner.records import Sample, SampleContext, Severity, Verdict


class Validator(Protocol):
    """Judges one sample. Pure, deterministic and total: any ids in, a verdict out.

    `reasons` declares every reason code that `check` may give, with its default severity.
    """

    reasons: Mapping[str, Severity]

    def check(self, sample: Sample, context: SampleContext) -> Verdict: ...


@dataclass(frozen=True)
class ConfiguredValidator:
    """A validator under its config name, with the severity of each of its reasons."""

    name: str
    validator: Validator
    severity: Mapping[str, Severity]


def register_schema() -> None:
    """Make the typed config known to Hydra as `_schema` (first in conf/config.yaml's defaults)."""
    ConfigStore.instance().store(name="_schema", node=Config)


def load_validators(entries: Mapping[str, Any]) -> list[ConfiguredValidator]:
    """The configured validators, in config order.

    Raises:
        ConfigError: an entry without `_target_`, a class that cannot be imported or built, or a
            severity for a reason that the validator does not declare.
    """
    return [_load(name, dict(entry or {})) for name, entry in entries.items() if entry is not None]


def _load(name: str, entry: dict[str, Any]) -> ConfiguredValidator:
    where = f"validators.{name}"
    severity = dict(entry.pop("severity", None) or {})
    if "_target_" not in entry:
        raise ConfigError(
            "A validator needs a class.",
            where=f"{where}._target_",
            found="nothing",
            allowed="a class, for example validators.finish.Finish",
        )
    try:
        validator = instantiate(entry)
    except InstantiationException as error:
        raise ConfigError(
            f"Validator {name!r} could not be made.",
            where=where,
            found=str(error.__cause__ or error).splitlines()[0],
            allowed=f"a class with its own arguments: {entry['_target_']}",
        ) from error
    return ConfiguredValidator(name, validator, _severities(where, validator, severity))


def _severities(where: str, validator: Validator, chosen: dict[str, str]) -> dict[str, Severity]:
    reasons = dict(validator.reasons)
    for reason, value in chosen.items():
        if reason not in reasons:
            raise ConfigError(
                "This validator has no such reason.",
                where=f"{where}.severity.{reason}",
                found=reason,
                allowed=", ".join(reasons),
            )
        if value not in {s.value for s in Severity}:
            raise ConfigError(
                "A severity is one of three words.",
                where=f"{where}.severity.{reason}",
                found=str(value),
                allowed=", ".join(Severity),
            )
        reasons[reason] = Severity(value)
    return reasons
