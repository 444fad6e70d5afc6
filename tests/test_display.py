import io
from pathlib import Path

import pytest
from rich.console import Console

from runner.display import Display, Rate, Snapshot, duration, panel, plain_line
from runner.records import Counts

SNAPSHOT = Snapshot(
    stage="generating",
    counts=Counts(planned=100, ok=40, rejected=2, failed=1, skipped=1, pending=56),
    output_tokens=12_345,
    tokens_per_s=678.9,
    eta_s=125.0,
    in_flight=8,
    at_risk=3,
    finish={"stop": 40, "length": 2},
    rejected={"B1": 2},
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (61, "1:01"), (3723, "1:02:03"), (None, "?"), (float("nan"), "?")],
)
def test_a_duration_reads_like_a_clock(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_plain_line_says_what_matters() -> None:
    line = plain_line(SNAPSHOT)
    for part in ("43 of 99", "12,345 tokens", "679/s", "in flight 8", "length 2", "ETA 2:05"):
        assert part in line
    assert "rejected 2, failed 1" in line


@pytest.mark.parametrize("width", [60, 100])
def test_the_panel_fits_its_terminal(width: int) -> None:
    screen = io.StringIO()
    Console(file=screen, width=width, force_terminal=True).print(panel(SNAPSHOT))
    assert "B1 2" in screen.getvalue()


def test_rate_is_over_the_window_only() -> None:
    rate = Rate(window_s=10)
    assert rate.per_s() == (0.0, 0.0)
    for second in range(31):
        rate.add(100 * second if second < 20 else 2000, second, now=float(second))
    tokens_per_s, samples_per_s = rate.per_s()
    assert tokens_per_s == pytest.approx(0.0)
    assert samples_per_s == pytest.approx(1.0)


def test_what_is_said_is_on_the_screen_and_in_the_log_and_is_no_markup(tmp_path) -> None:
    screen = io.StringIO()
    log = tmp_path / "log.txt"
    with Display(Console(file=screen, width=80), log) as display:
        display.say("[red]hello[/red] from the model")
        display.show(SNAPSHOT)
        display.show(SNAPSHOT)
    assert "[red]hello[/red]" in screen.getvalue()
    assert "[red]hello[/red]" in log.read_text()
    assert log.read_text().count("generating") == 1, "a figure line comes at most every 10 s"


def test_a_log_on_a_full_disk_costs_no_more_than_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """/dev/full answers every write with ENOSPC."""
    log = tmp_path / "log.txt"
    log.symlink_to("/dev/full")
    screen = io.StringIO()
    with Display(Console(file=screen), log) as display:
        display.say("one")
        display.say("two")
    assert screen.getvalue().count("\n") == 2
    assert capfd.readouterr().err == ""
