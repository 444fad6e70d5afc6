"""Text from a model, made safe and visible for a terminal. Pure.

A model can write escape sequences that clear the screen, set the window's title or hide text, and
marks that turn the direction of writing around. Every control and format character but newline and
tab becomes a visible escape as Python writes it (`\\x1b`, `\\u202e`). Nothing is removed, and
printable text is untouched; a backslash of the text itself is not doubled, since answers are full
of them: where exact text matters, `--json` has it.
"""

import unicodedata
from collections.abc import Iterator

_HARMLESS = "\n\t"
_HOSTILE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, format characters (bidi, zero width, tags), surrogates, line and paragraph
separators."""


def safe(text: str) -> str:
    """The text with visible escapes, newlines and tabs kept."""
    return text if text.isprintable() else "".join(piece for piece, _ in escapes_of(text))


def safe_line(text: str) -> str:
    """Like `safe` on one line: newlines and tabs are escaped too."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def escapes_of(text: str) -> Iterator[tuple[str, bool]]:
    """The text as stretches (piece, whether it is an escape), in order."""
    start = 0
    for position, character in enumerate(text):
        if character not in _HARMLESS and unicodedata.category(character) in _HOSTILE_CATEGORIES:
            if start < position:
                yield text[start:position], False
            yield _visible(character), True
            start = position + 1
    if start < len(text):
        yield text[start:], False


def _visible(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
