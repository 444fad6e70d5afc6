"""docs/validators.md is what the docstrings say, and the docstrings are what the code declares."""

from pathlib import Path

import pytest

import validators
from tests.validators.make import DEFAULT
from tools.validators_doc import DOC, ORDER, document, main, read

NO_VALIDATORS = {"__init__", "call_grammars", "calls", "text_calls"}


def test_the_document_is_current() -> None:
    assert main(["--check"]) == 0
    assert document(DOC.read_text()) == DOC.read_text()


def test_every_validator_has_a_page_and_a_place_in_the_default_set() -> None:
    files = {path.stem for path in Path(str(validators.__file__)).parent.glob("*.py")}
    assert files - NO_VALIDATORS == set(ORDER) == set(DEFAULT)


@pytest.mark.parametrize("name", ORDER)
def test_the_docstring_lists_every_reason_with_its_severity(name: str) -> None:
    page = read(name)
    assert {code: severity for code, severity, _ in page.reasons} == page.declared
    assert "" not in (page.covers, page.lacks, page.example)
    assert page.title.endswith(".")
