"""A composed config to typed objects, once: nothing behind it sees a DictConfig.

A wrong config is a `ConfigError` that names the key, the value and what is allowed, before
anything is started or written.
"""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException, ValidationError

from runner.config.prompting import check_prompting
from runner.config.ranges import RANGES
from runner.config.schema import Config, Server, ServerKind
from runner.config.secrets import without_secrets
from runner.errors import ConfigError


def parse(cfg: DictConfig) -> Config:
    """The composed config as typed objects, every value present and in range.

    Raises:
        ConfigError: a missing value, a key that the schema does not have (also one added with
            `+`), a wrong type, an interpolation that leads nowhere, a value out of range, or
            settings that do not fit together.
    """
    try:
        _check_mode_exists(cfg)
        if missing := sorted(OmegaConf.missing_keys(cfg)):
            raise ConfigError(
                "A config value is missing.",
                where=", ".join(missing),
                found="???",
                next_step=f"set it, for example {missing[0]}=VALUE",
            )
        plain = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), plain))
    except OmegaConfBaseException as error:
        raise explain(error) from None
    assert isinstance(config, Config)  # noqa: S101 - tells mypy what to_object of Config gives
    config.paths.outputs = str(Path(config.paths.outputs).expanduser().resolve())
    check_ranges(config)
    check_together(config)
    if config.server.kind is ServerKind.sglang:
        config.server.flags = {**config.model.launch_flags, **config.server.flags}
    return config


def explain(error: OmegaConfBaseException) -> ConfigError:
    """Hydra's or OmegaConf's error in our form, with the keys that exist where one does not."""
    allowed = ""
    known = _fields_of(error.object_type)
    key = str(error.key) if error.key is not None else ""
    if known and key and key not in known:
        close = difflib.get_close_matches(key, known, n=1)
        allowed = ", ".join(known) + (f" (did you mean {close[0]}?)" if close else "")
    elif isinstance(error, ValidationError):
        allowed = _range_of(str(error.full_key or ""), str(error.msg or ""))
    elif not known and isinstance(error.parent_node, DictConfig):
        allowed = ", ".join(str(name) for name in error.parent_node)
    first_line = str(error.msg or error).splitlines()[0]
    found = "" if error.value is None else repr(error.value)
    return ConfigError(first_line, where=str(error.full_key or key), found=found, allowed=allowed)


def _range_of(path: str, told: str) -> str:
    """What a value of the wrong type should have been; "" where nothing is known."""
    if (check := RANGES.get(pattern_of(path))) is not None:
        return check[0]
    kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
    return next((words for kind, words in kinds.items() if f"converted to {kind}" in told), "")


def _fields_of(kind: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of dataclasses and mappings as ("a.b.c", value); lists are leaves."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value.value if isinstance(value, Enum) else value


def pattern_of(path: str) -> str:
    """`category.parts.B4.count` -> `category.parts.*.count`: the names of parts are free."""
    keys = path.split(".")
    if keys[:2] == ["category", "parts"] and len(keys) > 2:
        keys[2] = "*"
    return ".".join(keys)


def check_ranges(config: Config) -> None:
    """Raise ConfigError for the first value outside its range in `RANGES`."""
    for path, value in flatten(config):
        check = RANGES.get(pattern_of(path))
        if check is not None and value is not None and not check[1](value):
            raise ConfigError(
                "A config value is out of range.",
                where=path,
                found=repr(value),
                allowed=check[0],
            )


def _check_mode_exists(cfg: DictConfig) -> None:
    """Before interpolations that go through the mode are resolved, so that the message is ours."""
    if OmegaConf.is_missing(cfg.mode, "name"):
        return
    modes, mode = list(cfg.model.modes), str(cfg.mode.name)
    if mode not in modes:
        raise ConfigError(
            f"Model {cfg.model.name} has no mode {mode!r}.",
            where="mode",
            found=mode,
            allowed=", ".join(sorted(modes)) or "none",
        )


def check_together(config: Config) -> None:
    """Raise ConfigError where two settings contradict each other."""
    model, sampling = config.model, config.sampling
    if sampling.min_new_tokens > sampling.max_new_tokens:
        raise ConfigError(
            "sampling.min_new_tokens is above sampling.max_new_tokens.",
            where="sampling.min_new_tokens",
            found=str(sampling.min_new_tokens),
            allowed=f"at most {sampling.max_new_tokens}",
        )
    if sampling.max_new_tokens >= model.context_length:
        raise ConfigError(
            "sampling.max_new_tokens leaves no room for a prompt.",
            where="sampling.max_new_tokens",
            found=str(sampling.max_new_tokens),
            allowed=f"below model.context_length = {model.context_length}",
        )
    if config.partition.index >= config.partition.of:
        raise ConfigError(
            "There is no such partition.",
            where="partition.index",
            found=str(config.partition.index),
            allowed=f"0 to {config.partition.of - 1}: partition.of is {config.partition.of}",
        )
    _check_server(config.server)
    check_prompting(config)


def _check_server(server: Server) -> None:
    if server.kind is ServerKind.external and not server.urls:
        raise ConfigError(
            "server=external needs the address of a running server.",
            where="server.urls",
            found="[]",
            allowed="one or more URLs",
            next_step="server.urls=[http://127.0.0.1:30000]",
        )
    for url in server.urls:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                "A server URL must begin with http:// or https://.",
                where="server.urls",
                found=url,
                allowed="http://HOST:PORT",
            )


def key_types() -> dict[str, Any]:
    """Every fixed key of the schema with its type, for tests and for the key classes."""
    return dict(_walk(Config, ""))


def _walk(kind: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(kind).items():
        path = f"{prefix}{name}"
        inner = [hint, *getattr(hint, "__args__", ())]
        nested = next((t for t in inner if dataclasses.is_dataclass(t)), None)
        if nested is None:
            yield path, hint
        elif hint is nested or type(None) in inner:
            yield from _walk(nested, f"{path}.")
        else:
            yield from _walk(nested, f"{path}.*.")


def to_plain(config: Config) -> dict[str, Any]:
    """The resolved config without its secrets as mappings, lists and values."""
    plain: dict[str, Any] = _plain(without_secrets(config))
    return plain


def _plain(value: Any) -> Any:
    """Of a member of an enumeration its name."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.name if isinstance(value, Enum) else value
