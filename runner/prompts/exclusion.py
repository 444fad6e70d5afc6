"""Exclusion lists: texts and ids that must not be asked (test sets), given as files.

    .txt     one text a line
    .ids     one id a line: what the data set calls the row (`columns.id`), or CATEGORY-ROW
    .jsonl   a text as a JSON string, or an object: `id` or `ids`; `text`, `prompt`, `problem`,
             `question` or `instruction`; or `messages`, whose last user turn counts

A prompt is excluded when one of its user turns is such a text after normalisation (Unicode NFKC,
lower case, white space as one space, ends stripped), or when its id is listed. Exact: a paraphrase
or a part of a text is not found. Each text costs about 100 bytes of memory.
"""

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runner.errors import ConfigError
from runner.prompts.onefile import sha256_of
from runner.prompts.shape import Conversation, text_of

_TEXT_KEYS = ("text", "prompt", "problem", "question", "instruction")
_ENDINGS = (".txt", ".ids", ".jsonl")


class Exclusion:
    """The listed texts and ids, with the place of each. `identity` is what they hold.

    Raises:
        ConfigError: a file cannot be read, or a line says neither text nor id.
    """

    def __init__(self, paths: Sequence[str], where: str = "prompts.exclude") -> None:
        self._texts: dict[bytes, str] = {}
        self._ids: dict[str, str] = {}
        self.identity: list[str] = []
        for given in paths:
            path = Path(given).expanduser()
            try:
                self.identity.append(sha256_of(path))
                self._add(path, where)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    "The exclusion list cannot be read.", where=where, found=f"{path}: {error}"
                ) from error
        self.identity.sort()

    def __bool__(self) -> bool:
        return bool(self._texts or self._ids)

    def hit(self, conversation: Conversation, row_id: str) -> str:
        """Where the prompt is listed ("tests.jsonl:12"), or ""."""
        for own in (conversation.id, row_id):
            if own and own in self._ids:
                return self._ids[own]
        if not self._texts:
            return ""
        asked = (m for m in conversation.messages if m["role"] == "user")
        return next((place for m in asked if (place := self._texts.get(_digest(text_of(m))))), "")

    def _add(self, path: Path, where: str) -> None:
        if path.suffix not in _ENDINGS:
            raise ConfigError(
                "An exclusion list is a file of texts or ids.",
                where=where,
                found=str(path),
                allowed=", ".join(_ENDINGS),
            )
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    self._add_line(line.rstrip("\n"), path, number, where)

    def _add_line(self, line: str, path: Path, number: int, where: str) -> None:
        place = f"{path.name}:{number}"
        if path.suffix == ".ids":
            self._ids.setdefault(line.strip(), place)
        elif path.suffix == ".txt":
            self._texts.setdefault(_digest(line), place)
        else:
            found = list(_entries(line))
            if not found:
                raise ConfigError(
                    "This line of an exclusion list names neither a text nor an id.",
                    where=f"{where}: {path}, line {number}",
                    found=line[:80],
                    allowed=f'"TEXT", or an object with id, {", ".join(_TEXT_KEYS)} or messages',
                )
            for is_id, value in found:
                if is_id:
                    self._ids.setdefault(value, place)
                else:
                    self._texts.setdefault(_digest(value), place)


def _entries(line: str) -> Iterator[tuple[bool, str]]:
    """(is an id, value) for each thing that a JSON line lists."""
    try:
        row: Any = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return
    if isinstance(row, str):
        yield False, row
    elif isinstance(row, dict):
        ids = row.get("ids", row.get("id"))
        for own in ids if isinstance(ids, list) else [ids]:
            if own is not None:
                yield True, str(own)
        yield from ((False, row[key]) for key in _TEXT_KEYS if isinstance(row.get(key), str))
        yield from ((False, text) for text in _last_user(row.get("messages")))


def _last_user(messages: Any) -> Iterator[str]:
    if isinstance(messages, list):
        asked = [m for m in messages if isinstance(m, dict) and m.get("role") == "user"]
        yield from map(text_of, asked[-1:])


def normalised(text: str) -> str:
    """The form in which texts are compared."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(normalised(text).encode("utf-8", "replace"), digest_size=16).digest()
