import pytest

from runner.view.figures import (
    age,
    bytes_text,
    compact,
    duration,
    per_second,
    plural,
    share,
    thousands,
)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567, "1,234,567"), (999.6, "1,000"), (2.4, "2")]
)
def test_thousands(value, text):
    assert thousands(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999_999, "999,999"), (228_100_000, "228.1M"), (1e10, "10.0G"), (2e12, "2.0T")],
)
def test_compact(value, text):
    assert compact(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "-"),
        (0, 5, "0.0%"),
        (1, 8, "12.5%"),
        (1, 100_000, "<0.1%"),
        (99_999, 100_000, ">99.9%"),
        (5, 5, "100.0%"),
    ],
)
def test_a_share_never_rounds_to_none_or_all(part, whole, text):
    assert share(part, whole) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (3.21, "3.2 s"),
        (119, "119 s"),
        (600, "10 min"),
        (3 * 3600 + 125, "3 h 02 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (61, "1 min"), (7300, "2 h"), (200_000, "2 d")]
)
def test_age(seconds, text):
    assert age(seconds) == text


def test_no_time_is_no_rate():
    assert per_second(None) == "-"


def test_a_slow_rate_has_a_decimal():
    assert per_second(1.5) == "1.5"


def test_bytes_text():
    assert bytes_text(1_250_000_000) == "1.2 GB"


def test_plural():
    assert (plural(1, "sample"), plural(1200, "sample")) == ("1 sample", "1,200 samples")
    assert plural(2, "launch", many="launches") == "2 launches"
