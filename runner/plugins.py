"""Where names in the config become objects: the schema for Hydra, and the one `instantiate` site.

Validators (and any class by `_target_`) are plugins: a mapping name -> {_target_, severity, args}.
One that judges samples has `check`, one that judges the whole set of them has `conclude`.
A plugin that cannot be imported or built is a ConfigError naming the key, never a warning.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

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


AUTO_SLOTS = 8


def _slots(concurrency: int | str) -> int:
    return AUTO_SLOTS if isinstance(concurrency, str) else concurrency


def trials_left(wanted: int, database: str, study: str) -> int:
    """How many trials a search still owes: those that its study has ended are not done again.

    `database` is the study's sqlite file; it and its folder are made where they are not there. A
    trial that was running when the search was killed did not end.
    """
    states = _trial_states(database, study)
    return max(0, wanted - sum(state in ("COMPLETE", "FAIL") for state in states))


def search_seed(seed: int, database: str, study: str) -> int:
    """The seed of a search that may go on in an old study: with that of its beginning it would
    choose the points of its beginning once more."""
    return seed + len(_trial_states(database, study))


def _trial_states(database: str, study: str) -> list[str]:
    path = Path(database)
    path.parent.mkdir(parents=True, exist_ok=True)
    states = "select state from trials join studies using (study_id) where study_name = ?"
    with closing(sqlite3.connect(path)) as opened:
        try:
            return [str(state) for (state,) in opened.execute(states, (study,))]
        except sqlite3.OperationalError:  # no study was begun there
            return []


def register_schema() -> None:
    """Make the typed config known to Hydra as `_schema` (first in conf/config.yaml's defaults).

    Mappings whose keys are the user's own take new ones without a `+`. `${slots:NUMBER}` is that
    number, or `AUTO_SLOTS` for `auto`: for servers that must be told how many requests they serve.
    `${trials_left:N,FILE,STUDY}` and `${search_seed:SEED,FILE,STUDY}`: see these functions.
    """
    OmegaConf.register_new_resolver("slots", _slots, replace=True)
    OmegaConf.register_new_resolver("trials_left", trials_left, replace=True)
    OmegaConf.register_new_resolver("search_seed", search_seed, replace=True)
    schema = OmegaConf.structured(Config)
    for name in ("gates", "validators"):
        schema[name]._set_flag("struct", False)
    ConfigStore.instance().store(name="_schema", node=schema)


def load_validators(entries: Mapping[str, Any]) -> list[ConfiguredValidator]:
    """The configured validators, in config order.

    Raises:
        ConfigError: an entry without `_target_`, a class that cannot be imported or built, or a
            severity for a reason that the validator does not declare.
    """
    return [_load(name, entry) for name, entry in entries.items() if entry is not None]


def _load(name: str, given: Any) -> ConfiguredValidator:
    where = f"validators.{name}"
    entry = dict(given) if isinstance(given, Mapping) else {}
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
            found=" ".join(str(error.__cause__ or error).split())[:300],
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
            found=" ".join(str(error.__cause__ or error).split())[:300],
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


def override_validators(
    entries: Mapping[str, Any],
    overrides: Sequence[str],
    conf: str,
    *,
    config_dir: Path | None = None,
) -> dict[str, Any]:
    """A validator mapping with command-line overrides in Hydra's own grammar applied to it:
    `validators=NAME` takes a set of the config tree `conf` instead, or of `config_dir` as Hydra's
    `--config-dir` does, `validators.X.Y=Z` and `~validators.X` change one.

    Raises:
        ConfigError: an override that cannot be read, or is about something else.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(
            "An override cannot be read.", found=str(error).splitlines()[0]
        ) from error
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError("There is no such folder.", where="--config-dir", found=str(config_dir))
    chosen = OmegaConf.create(dict(entries))
    for one in sorted(parsed, key=lambda o: o.key_or_group != "validators"):
        key, value = one.key_or_group, one.value()
        if key == "validators" and not one.is_delete():
            chosen = _validator_group(str(value), conf, config_dir)
        elif key.startswith("validators.") and one.is_delete():
            _drop(chosen, key.removeprefix("validators."))
        elif key.startswith("validators."):
            OmegaConf.update(chosen, key.removeprefix("validators."), value, merge=True)
        else:
            raise ConfigError(
                "Judging again changes the validators only.",
                where="overrides",
                found=one.input_line or key,
                allowed="validators=NAME, validators.NAME.KEY=VALUE, ~validators.NAME",
            )
    plain = OmegaConf.to_container(chosen, resolve=True)
    assert isinstance(plain, dict)  # noqa: S101 - tells mypy what to_container of a mapping gives
    return {str(name): entry for name, entry in plain.items()}


def _validator_group(name: str, conf: str, config_dir: Path | None) -> DictConfig:
    more = [] if config_dir is None else [config_dir.resolve()]
    try:
        with initialize_config_dir(conf, version_base="1.3"):
            # Not as the primary config: Hydra looks for that one in `conf` only.
            composed = compose(overrides=[*map(_search, more), f"+validators={name}"])
    except (MissingConfigException, OverrideParseException) as error:
        folders = [Path(conf), *more]
        sets = sorted(path.stem for one in folders for path in one.glob("validators/*.yaml"))
        raise ConfigError(
            "There is no such validator set.",
            where="validators",
            found=name,
            allowed=", ".join(sets),
        ) from error
    OmegaConf.set_struct(composed, False)
    return OmegaConf.create(composed.get("validators") or {})


def _search(folder: Path) -> str:
    """The override that has Hydra look in this folder too."""
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    return f"hydra.searchpath=['file://{quoted}']"


def _drop(chosen: DictConfig, path: str) -> None:
    *parents, last = path.split(".")
    node = OmegaConf.select(chosen, ".".join(parents)) if parents else chosen
    if not isinstance(node, DictConfig) or last not in node:
        raise ConfigError(
            "There is nothing of that name to drop.",
            where=f"validators.{path}",
            found=path,
            allowed=", ".join(map(str, chosen)),
        )
    del node[last]
