"""Where names in the config become objects: the schema for Hydra, and the one `instantiate` site.

Validators (and any class by `_target_`) are plugins: a mapping name -> {_target_, severity, args}.
One that judges samples has `check`, one that judges the whole set of them has `conclude`.
A plugin that cannot be imported or built is a ConfigError naming the key, never a warning.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hydra.core.config_store import ConfigStore
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from runner.config import Config
from runner.errors import ConfigError
from runner.records import (
    Expected,
    Judgement,
    Sample,
    SampleContext,
    SetFinding,
    Severity,
    Verdict,
)


class Validator(Protocol):
    """Judges one sample. Pure, deterministic and total: any ids in, a verdict out.

    `reasons` declares every reason code that `check` may give, with its default severity.
    """

    reasons: Mapping[str, Severity]

    def check(self, sample: Sample, context: SampleContext) -> Verdict: ...


class SetValidator(Protocol):
    """Judges the samples of a run together, from their judgements alone.

    `read` gives all judgements each time that it is called; what is held between is a few bytes a
    sample at most. `expected` is what the config expects, by category. Gives one finding for each
    reason and category, without `validator` and `severity`.
    """

    reasons: Mapping[str, Severity]

    def conclude(
        self, read: Callable[[], Iterable[Judgement]], expected: Mapping[str, Expected]
    ) -> list[SetFinding]: ...


@dataclass(frozen=True)
class ConfiguredValidator:
    """A validator under its config name, with the severity of each of its reasons."""

    name: str
    validator: Any
    severity: Mapping[str, Severity]

    @property
    def per_sample(self) -> bool:
        """Whether it judges single samples (a Validator)."""
        return hasattr(self.validator, "check")

    @property
    def set_level(self) -> bool:
        """Whether it judges all samples together (a SetValidator); one class may do both."""
        return hasattr(self.validator, "conclude")


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


def make_source(entry: Mapping[str, Any], where: str) -> Any:
    """The object of a part's `custom` block. Raises ConfigError."""
    if "_target_" not in entry:
        raise ConfigError(
            "A source of prompts of your own needs a class.",
            where=f"{where}._target_",
            found="nothing",
            allowed="a class, for example mypackage.MyPrompts",
        )
    try:
        return instantiate(dict(entry))
    except InstantiationException as error:
        raise ConfigError(
            "The source of prompts could not be made.",
            where=where,
            found=str(error.__cause__ or error).splitlines()[0],
            allowed=f"a class with its own arguments: {entry['_target_']}",
        ) from error


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
