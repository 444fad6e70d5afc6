"""YAML in and out: only plain values, by libyaml where it is there, which is ten times as fast."""

from typing import Any

import yaml  # type: ignore[import-untyped]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

YAMLError: type[Exception] = yaml.YAMLError


def load_yaml(text: str | bytes) -> Any:
    """Mappings, lists and values. Raises YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe loaders


def dump_yaml(value: Any) -> str:
    """The text of plain values, keys in their order."""
    return str(yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))
