"""The lines of metrics.jsonl: whatever is told comes back, and a torn line never does."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records import RunStatus
from runner.tracking import events
from runner.tracking.events import cell, decode, encode, number, storable

TEXT = st.text().map(storable)
AT = st.floats(min_value=0, max_value=4e9)
EVENTS = st.one_of(
    st.builds(
        events.Params,
        at=AT,
        values=st.dictionaries(TEXT, TEXT | st.booleans() | st.none() | st.integers(-9, 9)),
    ),
    st.builds(events.Tags, at=AT, values=st.dictionaries(TEXT, TEXT)),
    st.builds(
        events.Metrics,
        at=AT,
        step=st.integers(0, 2**62),
        values=st.dictionaries(TEXT, st.floats().map(number)),
    ),
    st.builds(events.Artifact, at=AT, path=TEXT, folder=TEXT),
    st.builds(events.Table, at=AT, name=TEXT, columns=st.dictionaries(TEXT, st.lists(TEXT))),
    st.builds(events.Dataset, at=AT, name=TEXT, source=TEXT, digest=TEXT, context=TEXT),
    st.builds(events.Status, at=AT, status=st.sampled_from(RunStatus)),
)


@given(EVENTS)
def test_every_event_comes_back(event: events.Event) -> None:
    assert decode(encode(event)) == event


@given(EVENTS)
def test_a_line_is_one_line_of_plain_json(event: events.Event) -> None:
    line = encode(event)
    assert line.count(b"\n") == 1
    assert {"event", "at"} <= json.loads(line, parse_constant=pytest.fail).keys()


@given(EVENTS, st.data())
def test_a_torn_line_is_never_an_event(event: events.Event, data: st.DataObject) -> None:
    line = encode(event)
    assert decode(line[: data.draw(st.integers(0, len(line) - 2))]) is None


@pytest.mark.parametrize("line", [b"", b"null\n", b"[]\n", b"{}\n", b'{"event":"x"}\n', b"\xff\n"])
def test_a_line_of_another_kind_is_not_an_event(line: bytes) -> None:
    assert decode(line) is None


@given(st.floats())
def test_a_number_survives_json(value: float) -> None:
    back = float(json.loads(json.dumps(number(value), allow_nan=False)))
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_numbers_of_numpy_are_numbers() -> None:
    assert number(np.float32(0.5)) == 0.5
    assert number(np.int64(3)) == 3.0


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (float("nan"), None), (float("inf"), None), (np.float64(0.5), 0.5), (np.int32(4), 4),
        (np.bool_(True), True), ("a\ud800b", "a?b"), ("a\0b", "a\ufffdb"), ((1, "x"), [1, "x"]),
        ({"k": float("nan")}, {"k": None}), (RunStatus.DONE, "done"), (b"x", "b'x'"), (None, None),
    ],
)  # fmt: skip
def test_a_cell_is_plain_json(value: object, stored: object) -> None:
    assert cell(value) == stored
    json.dumps(cell(value), allow_nan=False)
