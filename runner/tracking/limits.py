"""What MLflow accepts as names and values, and how ours are brought under it. Pure functions.

Numbers from `mlflow.utils.validation` and `mlflow.entities` of MLflow 3.17.2.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping

NAME_MAX = 250
PARAM_MAX = 6000
TAG_MAX = 8000
DATASET_NAME_MAX = 500
DIGEST_MAX = 36
METRICS_A_REQUEST = 500
PAIRS_A_REQUEST = 100
PAIR_BYTES_A_REQUEST = 400_000
"""MLflow refuses a batch above 1 MB or 1,000 entities: metrics, params and tags share that."""

_OUTSIDE = re.compile(r"[^A-Za-z0-9_\-. :/]")
_CUT = " ... [cut]"


def name(text: str) -> str:
    """A key that MLflow accepts: its character set, not a path that means another one."""
    clean = posixpath.normpath(_OUTSIDE.sub("_", text)).lstrip("/")
    while clean.startswith("../"):
        clean = clean[3:]
    return "_" if clean in ("", ".", "..") else clean[:NAME_MAX].rstrip("/")


def param_text(value: str | int | float | bool | None) -> str:
    """A param's value as it is shown: `true`, `null` and numbers as the config writes them."""
    text = value if isinstance(value, str) else json.dumps(value)
    return cut(text, PARAM_MAX)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; a cut is visible."""
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT


def chunks(pairs: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The pairs in pieces that fit one request, in order."""
    piece: dict[str, str] = {}
    size = 0
    for key, value in pairs.items():
        cost = len(json.dumps(key)) + len(json.dumps(value))
        if piece and (len(piece) == PAIRS_A_REQUEST or size + cost > PAIR_BYTES_A_REQUEST):
            yield piece
            piece, size = {}, 0
        piece[key] = value
        size += cost
    if piece:
        yield piece
