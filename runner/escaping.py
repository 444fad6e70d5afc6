"""Text of control tokens inside a prompt's own texts, made plain: pure, on strings.

A user may write "<|im_end|>", and a tokenizer that parses special tokens in the rendered prompt
would end the user's turn there. `Controls.mark` puts a separator into the middle of every such
text, in every string of messages and tools; the template is rendered with the separators in place,
and the pieces between them are encoded one by one, so that no piece holds a whole control text.
Only prompts that hold one are treated so.

Control texts are the tokens that the tokenizer calls special, and those other added tokens with
which the template itself speaks (`<think>` and `<tool_call>` are ordinary added tokens in some
families). Added tokens that are only text (runs of white space, HTML tags) are left alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

SEPARATORS = ("\ue0f0\ue0f1\ue0f2", "\uf3a1\uf3a3\uf3a7", "\ufdd0\ufdd3\ufdd8")
"""Private-use and non-characters; the first that the prompt does not hold is taken."""


class Controls:
    """The control texts of one tokenizer and template."""

    def __init__(self, special: Mapping[int, str], always: Iterable[int], template: str) -> None:
        certain = set(always)
        self.texts: dict[str, int] = {
            text: token
            for token, text in special.items()
            if text.strip() and (token in certain or text in template)
        }
        self.ids = frozenset(self.texts.values())
        choices = "|".join(re.escape(t) for t in sorted(self.texts, key=len, reverse=True))
        self._any = re.compile(choices) if choices else None
        in_json = [re.escape(msgspec.json.encode(text)[1:-1]) for text in self.texts]
        self._in_json = re.compile(b"|".join(in_json)) if in_json else None
        # A lookahead finds occurrences that overlap too.
        self._overlapping = re.compile(f"(?=({choices}))") if choices else None

    def found_in(self, *values: Any) -> list[str]:
        """The control texts that any string inside the values holds (each place once)."""
        if self._any is None or self._in_json is None:
            return []
        # Nearly all prompts hold none, and one search over their JSON says so in microseconds.
        if not self._in_json.search(msgspec.json.encode(values)):
            return []
        return [text for string in strings_of(values) for text in self._any.findall(string)]

    def mark(self, value: Any, separator: str) -> Any:
        """The same value with `separator` inside every occurrence of a control text.

        Raises:
            ValueError: a control text of one character, which has no inside.
        """
        return mapped(value, lambda text: self._split(text, separator))

    def _split(self, text: str, separator: str) -> str:
        pieces, begin = [], 0
        for cut in self._cuts(text):
            pieces.append(text[begin:cut])
            begin = cut
        pieces.append(text[begin:])
        return separator.join(pieces)

    def _cuts(self, text: str) -> Iterator[int]:
        """Positions so that every occurrence has one inside: as few as one each, from the left."""
        last = 0
        for start, end in sorted(self._occurrences(text), key=lambda found: found[1]):
            if start < last < end:
                continue
            if end - start < 2:
                raise ValueError(f"{text[start:end]!r} is one character long")
            last = max(start + 1, (start + end) // 2)
            yield last

    def _occurrences(self, text: str) -> Iterator[tuple[int, int]]:
        if self._overlapping is None:
            return
        for found in self._overlapping.finditer(text):
            start = found.start()
            for control in self.texts:
                if text.startswith(control, start):
                    yield start, start + len(control)


def separator_for(*values: Any) -> str | None:
    """A separator none of whose characters any string inside the values holds, or None."""
    characters = {c for string in strings_of(values) for c in string}
    return next((s for s in SEPARATORS if not characters & set(s)), None)


def strings_of(value: Any) -> Iterator[str]:
    """Every string inside plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from strings_of(key)
            yield from strings_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_of(inner)


def mapped(value: Any, change: Any) -> Any:
    """Plain data with every string changed; roles stay, since templates branch on them."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            k if k == "role" else change(k): v if k == "role" else mapped(v, change)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [mapped(v, change) for v in value]
    return value
