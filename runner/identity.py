"""What makes two runs the same run: the class of every config key, and the digest of the identity.

- IDENTITY  changes the data: part of the digest, so another value is another run;
- PLAN      how much of it: may grow under the same run;
- WORLD     checked against the run at each attempt (template, tokenizer, weights), not in config;
- FREE      everything else, recorded for each attempt.

A key at its default is left out of the digest, so that adding a key to the program moves no run.
What config cannot tell (what a local model folder or a prompt file holds) comes in as `facts`.
"""

import hashlib
from collections.abc import Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from runner.config import Config, IdentityKind, flatten, key_types, pattern_of

IDENTITY_VERSION = 1
"""Part of the digest; raised when the rules below change the digest of an existing run."""


class KeyClass(Enum):
    """What a change of a key means for a run."""

    IDENTITY = "identity"
    PLAN = "plan"
    FREE = "free"


KEY_CLASSES: tuple[tuple[str, KeyClass], ...] = (
    ("seed", KeyClass.IDENTITY),
    ("model.id", KeyClass.FREE),  # in the facts: id and revision, or a folder's fingerprint
    ("model.*", KeyClass.FREE),  # the chosen mode's template kwargs are in the facts
    ("server.engine", KeyClass.IDENTITY),
    ("server.*", KeyClass.FREE),
    ("mode.name", KeyClass.IDENTITY),
    ("sampling.name", KeyClass.FREE),
    ("sampling.*", KeyClass.IDENTITY),
    ("category.name", KeyClass.FREE),
    ("category.count", KeyClass.PLAN),
    ("category.n", KeyClass.PLAN),
    ("category.parts.*.count", KeyClass.PLAN),
    ("category.parts.*.n", KeyClass.PLAN),
    ("category.parts.*.weight", KeyClass.PLAN),
    ("category.parts.*.hub.count", KeyClass.PLAN),
    ("category.parts.*.budget_tokens", KeyClass.PLAN),
    ("category.total", KeyClass.PLAN),
    ("category.parts.*", KeyClass.FREE),  # what a part reads, and how, is in the facts, by content
    ("source.*", KeyClass.FREE),
    ("prompts.special_tokens", KeyClass.IDENTITY),
    ("prompts.duplicates", KeyClass.IDENTITY),
    ("prompts.over_context", KeyClass.IDENTITY),
    ("prompts.stop_on", KeyClass.FREE),
    ("prompts.exclude", KeyClass.FREE),  # what the files hold is in the facts
    ("prompts.workers", KeyClass.FREE),
    ("budget.*", KeyClass.PLAN),
    ("preview", KeyClass.FREE),
    ("estimate", KeyClass.FREE),
    ("task_name", KeyClass.FREE),
    ("tags", KeyClass.FREE),
    ("validators", KeyClass.FREE),
    ("tracking.*", KeyClass.FREE),
    ("client.*", KeyClass.FREE),
    ("cost.*", KeyClass.FREE),
    ("tuning.*", KeyClass.FREE),
    ("canary.*", KeyClass.FREE),
    ("breaker.*", KeyClass.FREE),
    ("gates", KeyClass.FREE),
    ("resume.*", KeyClass.FREE),
    ("partition.*", KeyClass.FREE),  # which part of the plan; names another directory, no other run
    ("shutdown.*", KeyClass.FREE),
    ("notify.*", KeyClass.FREE),
    ("identity", KeyClass.FREE),
    ("prepare", KeyClass.FREE),
    ("paths.*", KeyClass.FREE),
)
"""First match wins. Every key of the schema must match one (tests/test_identity.py)."""

_TUNING = ("server.flags.*", "server.env.*", "client.*")
"""What `identity=full` adds, for sweeps whose subject is the server's and client's settings."""

_DEFAULTS: dict[str, Any] = {
    "sampling.top_p": 1.0,
    "sampling.top_k": -1,
    "sampling.min_p": 0.0,
    "sampling.frequency_penalty": 0.0,
    "sampling.presence_penalty": 0.0,
    "sampling.repetition_penalty": 1.0,
    "sampling.min_new_tokens": 0,
    "sampling.ignore_eos": False,
    "prompts.special_tokens": "escape",
    "prompts.duplicates": "keep",
    "prompts.over_context": "skip",
    "client.auto.first": 16,
    "client.auto.most": 1024,
    "client.auto.interval_s": 5.0,
}
"""Keys left out of the digest at these values. Add to it with each new key of the identity, also
with one that only `identity=full` takes in."""


def class_of(path: str) -> KeyClass:
    """The class of a config key.

    Raises:
        KeyError: no rule matches; the schema has a key that nobody classified.
    """
    pattern = pattern_of(path)
    for rule, key_class in KEY_CLASSES:
        if fnmatchcase(pattern, rule) or pattern.startswith(f"{rule}."):
            return key_class
    raise KeyError(path)


def identity_of(config: Config, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The flat identity of a run: identity keys that are not at their default, and the facts."""
    keys = {
        path: value
        for path, value in flatten(config)
        if class_of(path) is KeyClass.IDENTITY and value != _DEFAULTS.get(path, _NO_DEFAULT)
    }
    if config.identity is IdentityKind.full:
        keys |= {
            path: value
            for path, value in flatten(config)
            if any(fnmatchcase(path, rule) for rule in _TUNING)
            and value != _DEFAULTS.get(path, _NO_DEFAULT)
        }
    return {"version": IDENTITY_VERSION, **dict(sorted(keys.items())), **facts}


_NO_DEFAULT = object()


def digest_of(value: Mapping[str, Any]) -> str:
    """SHA-256 over canonical JSON (sorted keys), as 64 hex characters."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def run_name(config: Config, digest: str) -> str:
    """`<model>-<category>-<mode>-<sampling>-<digest8>`: the folder under outputs/<task_name>/."""
    names = (config.model.name, config.category.name, config.mode.name, config.sampling.name)
    return "-".join([*names, digest[:8]])


def unclassified_keys() -> list[str]:
    """Schema keys that no rule of `KEY_CLASSES` covers; must be empty."""

    def covered(path: str) -> bool:
        try:
            class_of(path)
        except KeyError:
            return False
        return True

    return [path for path in key_types() if not covered(path)]
