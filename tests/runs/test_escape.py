import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.view.escape import escapes_of, safe, safe_line

HOSTILE = [
    "\x1b[2J",
    "\x07",
    "\r",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\u2028",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_characters_become_escapes(text):
    assert text[0] not in safe(f"a{text}b")


def test_escapes_are_as_python_writes_them():
    assert safe("\x1b[31m \u202e \U000e0041") == "\\x1b[31m \\u202e \\U000e0041"


def test_newline_and_tab_stay():
    assert safe("a\n\tb") == "a\n\tb"


def test_one_line_has_no_newline():
    assert safe_line("a\n\tb") == "a\\n\\tb"


@pytest.mark.parametrize(
    "text", ["Größe", "你好", "[bold]x[/]", ":smile:", "C:\\x", "a\u00a0b", "🙂"]
)
def test_printable_text_is_untouched(text):
    assert safe(text) == text


@given(st.text())
def test_no_control_or_format_character_is_left(text):
    kept = safe(text).replace("\n", "").replace("\t", "")
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in kept)
    assert "\u202e" not in kept


@given(st.text())
def test_what_is_not_escaped_is_the_text(text):
    plain = "".join(piece for piece, escaped in escapes_of(text) if not escaped)
    assert all(c in text for c in plain)
    assert "".join(piece for piece, _ in escapes_of(text)) == safe(text)
