"""What we send is within what MLflow takes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tracking import limits
from runner.tracking.quiet import mlflow


@pytest.mark.parametrize(
    ("key", "clean"),
    [
        ("sampling.top_p", "sampling.top_p"), ("pass@1", "pass_1"), ("a[0]", "a_0_"), ("", "_"),
        ("..", "_"), ("../x", "x"), ("/a//b/", "a/b"), ("a/../b", "b"), ("ä", "_"),
        ("k" * 300, "k" * 250),
    ],
)  # fmt: skip
def test_a_name_becomes_one_that_mlflow_takes(key: str, clean: str) -> None:
    assert limits.name(key) == clean


@pytest.fixture(scope="module", autouse=True)
def _mlflow_is_imported() -> None:
    mlflow()  # quietly, and not within a test's own time


@given(st.text(max_size=300))
def test_mlflow_itself_takes_every_cleaned_name(key: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_tag_name

    _validate_metric_name(limits.name(key))
    _validate_tag_name(limits.name(key))


@given(st.text(max_size=60))
def test_cleaning_a_clean_name_changes_nothing(key: str) -> None:
    assert limits.name(limits.name(key)) == limits.name(key)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (None, "null"), (3, "3"), (0.5, "0.5"), ("x", "x")]
)
def test_a_param_reads_as_in_the_config(value: object, text: str) -> None:
    assert limits.param_text(value) == text


def test_a_long_value_is_cut_and_shows_it() -> None:
    text = limits.param_text("x" * 7000)
    assert len(text) == 6000
    assert re.search(r"x \.\.\. \[cut\]$", text)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=30))
def test_pieces_hold_everything_once(pairs: dict[str, str]) -> None:
    pieces = list(limits.chunks(pairs))
    assert {key: value for piece in pieces for key, value in piece.items()} == pairs
    assert sum(map(len, pieces)) == len(pairs)


def test_pieces_are_at_most_a_hundred_pairs() -> None:
    assert [len(piece) for piece in limits.chunks({str(n): "" for n in range(250)})] == [
        100,
        100,
        50,
    ]


def test_pieces_of_long_values_stay_below_a_megabyte() -> None:
    pairs = {str(n): "\u4e00" * 6000 for n in range(60)}
    assert max(len(json.dumps(piece)) for piece in limits.chunks(pairs)) < 1_000_000
