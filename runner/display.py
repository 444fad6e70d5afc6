"""What a person sees while a run works: a live panel on a terminal, plain lines elsewhere.

Everything said also goes to the attempt's log file, with the time. Numbers come from one
`Snapshot`; nothing is computed twice.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from runner.records import Counts, Record
from runner.stats import CategoryStats, Stats

PLAIN_EVERY_S = 10.0
RATE_WINDOW_S = 30.0


class Snapshot(Record, frozen=True, kw_only=True):
    """The figures of one moment."""

    stage: str
    counts: Counts = Counts()
    output_tokens: int = 0
    tokens_per_s: float = 0.0
    eta_s: float | None = None
    in_flight: int = 0
    at_risk: int = 0
    """Samples that are finished and not yet on disk."""
    finish: dict[str, int] = {}
    rejected: dict[str, int] = {}
    """Rejected samples by category, where there are any."""


class Rate:
    """Tokens per second and ETA over a sliding window."""

    def __init__(self, window_s: float = RATE_WINDOW_S) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, int, int]] = deque()

    def add(self, tokens: int, settled: int, now: float | None = None) -> None:
        at = time.monotonic() if now is None else now
        self._points.append((at, tokens, settled))
        while len(self._points) > 2 and at - self._points[0][0] > self._window_s:
            self._points.popleft()

    def per_s(self) -> tuple[float, float]:
        """(tokens per second, samples per second); zeros before two points."""
        if len(self._points) < 2:
            return 0.0, 0.0
        (t0, a0, b0), (t1, a1, b1) = self._points[0], self._points[-1]
        span = max(t1 - t0, 1e-9)
        return (a1 - a0) / span, (b1 - b0) / span


class _LogFile(logging.FileHandler):
    """A log that may lie on a full disk: the run says so by itself, once, and the screen has what
    the file lacks; the standard handler would print a traceback for each line."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class Display:
    """`say` for events, `show` for figures. A context manager."""

    def __init__(self, console: Console, log_file: Path | None = None) -> None:
        self.console = console
        self._live: Live | None = None
        self._last_plain = 0.0
        self._last_line = ""
        self._logger = logging.getLogger("rawtok.attempt")
        self._logger.propagate = False
        self._logger.setLevel(logging.INFO)
        self._file: logging.Handler | None = None
        if log_file is not None:
            log_file.parent.mkdir(parents=True, exist_ok=True)
            self._file = _LogFile(log_file, encoding="utf-8")
            self._file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            self._logger.addHandler(self._file)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, refresh_per_second=4, transient=True, redirect_stdout=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._file is not None:
            self._logger.removeHandler(self._file)
            self._file.close()

    def say(self, text: str) -> None:
        """One event, on the screen and in the log."""
        self._logger.info(text)
        stamp = time.strftime("%H:%M:%S")
        self.console.print(f"[dim]{stamp}[/dim] {escape(text)}", highlight=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """The figures of now."""
        if self._live is not None:
            self._live.update(panel(snapshot))
        now = time.monotonic()
        begun = snapshot.in_flight or progress(snapshot.counts)[0]
        if begun and now - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = now
            line = plain_line(snapshot)
            if line != self._last_line:
                self._last_line = line
                self._logger.info(line)
                if self._live is None:
                    stamped = f"{time.strftime('%H:%M:%S')} {line}"
                    self.console.print(stamped, highlight=False, soft_wrap=True)


def duration(seconds: float | None) -> str:
    """1:02:03 or 2:03; "?" when unknown."""
    if seconds is None or seconds != seconds or seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress(counts: Counts) -> tuple[int, int]:
    """(samples settled, samples to settle): skipped rows are never sent, so they are in neither."""
    asked = counts.planned - counts.skipped
    return asked - counts.pending, asked


def plain_line(snapshot: Snapshot) -> str:
    """One line for logs."""
    counts = snapshot.counts
    settled, asked = progress(counts)
    parts = [
        f"{snapshot.stage}: {settled:,} of {asked:,}",
        f"{snapshot.output_tokens:,} tokens, {snapshot.tokens_per_s:,.0f}/s",
        f"in flight {snapshot.in_flight}",
        " ".join(f"{name} {n:,}" for name, n in sorted(snapshot.finish.items())),
        f"rejected {counts.rejected:,}, failed {counts.failed:,}",
        f"ETA {duration(snapshot.eta_s)}",
    ]
    return " · ".join(part for part in parts if part)


def panel(snapshot: Snapshot) -> Group:
    """The live panel: a bar and a few lines."""
    counts = snapshot.counts
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        expand=True,
    )
    settled, asked = progress(counts)
    bar.add_task(snapshot.stage, total=max(1, asked), completed=settled)
    figures = Table.grid(padding=(0, 3))
    figures.add_row(
        f"{snapshot.output_tokens:,} output tokens",
        f"{snapshot.tokens_per_s:,.0f} tokens/s",
        f"ETA {duration(snapshot.eta_s)}",
        f"in flight {snapshot.in_flight}",
        f"not yet on disk {snapshot.at_risk}",
    )
    finish = ", ".join(f"{name} {n:,}" for name, n in sorted(snapshot.finish.items())) or "none yet"
    rejected = ", ".join(f"{name} {n:,}" for name, n in sorted(snapshot.rejected.items())) or "none"
    state = Text(
        f"finish: {finish}    rejected: {rejected}    failed: {counts.failed:,}",
        style="yellow" if counts.rejected or counts.failed else "",
    )
    return Group(bar, figures, state)


def closing_table(stats: Stats) -> Table:
    """The table that ends a run: one row for each category."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("category")
    for name in ("samples", "ok", "rejected", "flagged", "cut", "prompt tok", "output tok", "mean"):
        table.add_column(name, justify="right")
    for name, one in sorted(stats.categories.items()):
        table.add_row(name, *_row(one))
    if len(stats.categories) > 1:
        table.add_row("all", *_row(stats.all()), style="bold")
    return table


def _row(one: CategoryStats) -> Iterable[str]:
    mean = one.output_tokens / one.samples if one.samples else 0
    return (
        f"{one.samples:,}",
        f"{one.ok:,}",
        f"{one.rejected:,}",
        f"{one.flagged:,}",
        f"{one.truncated_share:.0%}",
        f"{one.prompt_tokens:,}",
        f"{one.output_tokens:,}",
        f"{mean:,.0f}",
    )


def reasons_table(stats: Stats) -> Table:
    """Failed checks by validator and reason."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("validator", "left"), ("reason", "left"), ("severity", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("samples", justify="right")
    for (validator, reason, severity), n in stats.all().reasons.most_common():
        table.add_row(validator, reason, severity, f"{n:,}")
    return table
