"""Keeps secrets out of everything that tracking writes, says or sends. Pure functions.

Covered: values whose key names a secret (api_key, token, password, ...), credentials inside URLs,
and `key=value`, `key: value`, `--key value` inside longer texts when the key names a secret. Not
covered: a secret that stands alone in a text with nothing beside it that says what it is.
"""

import re

Scalar = str | int | float | bool | None

MASK = "***"

_SECRET = re.compile(
    r"(.*_)?(api_?key|access_?key|private_?key|secrets?|secret_?key|passw(or)?d|passphrase|pwd"
    r"|credentials?|authorization|bearer|cookie)"
)
_TOKEN = re.compile(r"(?:.*_)?([a-z0-9]+)_token|token")
_TEXT_TOKENS = frozenset(
    re.findall(
        r"\S+",
        """eos bos pad unk sep mask cls matched stop think end start begin per last first next
        image special close open""",
    )
)
"""Words that make `<word>_token` a token of text, which this project is full of, not a secret."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEGMENTS = re.compile(r"[./:\s]+")
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#\"']*@")
# The key is bounded, and starts where a word does: the time must stay linear in hostile text.
_ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<key>[A-Za-z][\w.\-]{0,100})(?P<between>[\"']?\s*[=:]\s*|\s+(?=[^\s\-]))"
    r"(?P<value>(?:(?:Bearer|Basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s,;&}\])\"']+))"
)


def is_secret(key: str) -> bool:
    """Whether a (dotted) key names something that must not be told."""
    return any(_secret_word(segment) for segment in _SEGMENTS.split(key))


def _secret_word(segment: str) -> bool:
    word = _CAMEL.sub("_", segment).lower().replace("-", "_").strip("_")
    if _SECRET.fullmatch(word):
        return True
    token = _TOKEN.fullmatch(word)
    return token is not None and token.group(1) not in _TEXT_TOKENS


def mask_uri(uri: str) -> str:
    """The address without `user:password@`; an address without credentials comes back as it is."""
    return _URL_CREDENTIALS.sub(f"{MASK}@", uri)


def mask_text(text: str) -> str:
    """A longer text (an override list, a command line, a URL) with the secrets in it masked."""
    return _ASSIGNED.sub(_mask_assigned, mask_uri(text))


def _mask_assigned(match: re.Match[str]) -> str:
    key, between = match.group("key", "between")
    spaced = between.isspace()
    flag = match.string[: match.start()].endswith("-")
    if not is_secret(key) or (spaced and not flag):
        return match.group()
    return f"{key}{between}{MASK}"


def mask_value(key: str, value: Scalar) -> Scalar:
    """`value` as it may be told under `key`. Numbers and text under a secret key become `***`."""
    if value is None or value == "" or isinstance(value, bool):
        return value
    if is_secret(key):
        return MASK
    return mask_text(value) if isinstance(value, str) else value
