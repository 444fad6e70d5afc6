"""Takes secrets out of what servers say of themselves, before it is stored or shown.

Covers: values of keys that name a secret, the values themselves wherever else they occur, and
command-line flags (SGLang's `/server_info` answers with its API key in clear, twice, and once more
inside its launch command). Does not cover secrets under names that do not say so.
"""

import re

REDACTED = "[redacted]"

SECRET_KEY = re.compile(
    r"api_?keys?$|password|secret|credential|(hf|auth|access|bearer)_?token", re.I
)
SECRET_FLAG = re.compile(r"(--[\w-]*(?:api-key|password|secret|token)[= ]+)(\S+)", re.I)


def redacted(value: object, *, secrets: frozenset[str] = frozenset()) -> object:
    """A copy of a JSON value without secrets. `secrets` are values that are known beforehand."""
    return _cleaned(value, secrets | frozenset(_found(value)))


def _found(value: object) -> list[str]:
    """Every text below a key that names a secret."""
    if isinstance(value, list):
        return [text for item in value for text in _found(item)]
    if not isinstance(value, dict):
        return []
    named = [text for key, item in value.items() if _is_secret(key) for text in _texts(item)]
    return named + [text for item in value.values() for text in _found(item)]


def _texts(value: object) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]


def _cleaned(value: object, secrets: frozenset[str]) -> object:
    if isinstance(value, dict):
        return {
            key: REDACTED if item and _is_secret(key) else _cleaned(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(item, secrets) for item in value]
    return _without(value, secrets) if isinstance(value, str) else value


def _is_secret(key: object) -> bool:
    return isinstance(key, str) and SECRET_KEY.search(key) is not None


def _without(text: str, secrets: frozenset[str]) -> str:
    # The flags first: after them a short key can only be in places where it may stand for itself.
    text = SECRET_FLAG.sub(rf"\g<1>{REDACTED}", text)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:  # a shorter one would blank out ordinary words and numbers
            text = text.replace(secret, REDACTED)
    return text
