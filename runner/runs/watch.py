"""`watch`: a running run, live, from run.json and the shards only.

It takes no lock and asks no process, so it works from another machine on the same file system and
cannot disturb the run.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from runner.ledger import sample_keying
from runner.records import Counts, Judgement, RunStatus
from runner.rundir import RunDir, RunState, reference_of
from runner.runs.command import Command, add_run
from runner.runs.opening import open_run
from runner.runs.screen import fill, new_table, say, status_text
from runner.runs.show import accounting_line
from runner.shards import ShardReader
from runner.stats import CategoryStats, Stats
from runner.view.escape import safe_line
from runner.view.figures import age, duration, per_second, share, thousands
from runner.view.status import DEAD, choose_set, read_state, shown_status

_WINDOW_S = 60.0
"""The present speed is that of the last minute."""


@dataclass(frozen=True)
class Glance:
    """One look at a run. `speed` (tokens/s) and `pace` (samples/s) are of the last minute, or
    None before there are two looks to compare."""

    name: str
    status: str
    state: RunState | None
    stats: Stats
    speed: float | None = None
    pace: float | None = None

    @property
    def counts(self) -> Counts:
        return self.state.counts if self.state else Counts()

    @property
    def finished(self) -> int:
        return self.counts.planned - self.counts.pending

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at the present pace; None while that is not known."""
        return self.counts.pending / self.pace if self.pace else None


class Watcher:
    """Looks at a run again and again; each look reads only what is new in the verdicts."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._stats = Stats()
        self._seen = 0
        self._reader: ShardReader | None = None
        self._past: list[tuple[float, int, int]] = []
        """(heartbeat, finished samples, output tokens) of each run.json seen."""

    def look(self) -> Glance:
        """The run at this moment."""
        state = read_state(self._run)
        self._fold(choose_set(self._run, state, None))
        status = shown_status(self._run, state)
        glance = Glance(reference_of(self._run), status, state, self._stats)
        return glance if state is None else self._with_speed(glance, state)

    def _with_speed(self, glance: Glance, state: RunState) -> Glance:
        """Compare with the oldest run.json of the last minute; its clock is its own heartbeat."""
        now = (state.heartbeat, glance.finished, state.tokens.output)
        recent = [one for one in self._past if 0 < now[0] - one[0] <= _WINDOW_S]
        self._past = [*recent, now]
        if not recent:
            return glance
        then = recent[0]
        seconds = now[0] - then[0]
        return replace(
            glance, speed=(now[2] - then[2]) / seconds, pace=(now[1] - then[1]) / seconds
        )

    def _fold(self, verdict_set: str) -> None:
        if self._reader is None:
            self._reader = ShardReader(self._run.verdicts(verdict_set), keying=sample_keying)
        self._reader.refresh()
        end = len(self._reader.index())
        for position in range(self._seen, end):
            line = self._reader.at(position)
            self._stats.add(msgspec.json.decode(line, type=Judgement))
        self._seen = end


def run_watch(arguments: argparse.Namespace, screen: Console) -> int:
    """The command; Ctrl-C ends it, not the run."""
    run = open_run(arguments.run, arguments.outputs)
    watcher = Watcher(run)
    glance = watcher.look()
    try:
        if screen.is_terminal:
            glance = _live(watcher, glance, arguments.interval_s, screen)
        else:
            glance = _lines(watcher, glance, arguments.interval_s, screen)
    except KeyboardInterrupt:
        say(screen, ("stopped watching; the run goes on", "dim"))
        return 0
    _farewell(glance, screen)
    return 0


def _looks(watcher: Watcher, first: Glance, interval_s: float) -> Iterator[Glance]:
    """The first look and those after it, until the run does not go on any more."""
    glance = first
    yield glance
    while glance.status == RunStatus.RUNNING:
        time.sleep(interval_s)
        glance = watcher.look()
        yield glance


def _live(watcher: Watcher, glance: Glance, interval_s: float, screen: Console) -> Glance:
    with Live(picture(glance, screen), console=screen, auto_refresh=False) as live:
        for look in _looks(watcher, glance, interval_s):
            glance = look
            live.update(picture(glance, screen), refresh=True)
    return glance


def _lines(watcher: Watcher, glance: Glance, interval_s: float, screen: Console) -> Glance:
    before = ""
    for look in _looks(watcher, glance, interval_s):
        glance = look
        if (line := line_of(glance)) != before:
            say(screen, line)
            before = line
    return glance


def line_of(glance: Glance) -> str:
    """A look in one line, for logs."""
    if glance.state is None:
        return f"{glance.status}: no run.json yet"
    counts = glance.counts
    report = " at last report" if glance.status == DEAD else ""
    return (
        f"{glance.status}: {glance.finished:,}/{counts.planned:,}{report}, "
        f"{counts.rejected:,} rejected, {counts.failed:,} failed, "
        f"{thousands(glance.state.tokens.output)} output tokens, "
        f"{_speed(glance) if glance.status == RunStatus.RUNNING else _overall(glance)}"
    )


def _speed(glance: Glance) -> str:
    if glance.speed is None:
        return "measuring the speed"
    to_go = "" if glance.eta_s is None else f", {duration(glance.eta_s)} to go"
    return f"{per_second(glance.speed)} tokens/s{to_go}"


def _overall(glance: Glance) -> str:
    state = glance.state
    return f"{per_second(state.tokens_per_s if state else None)} tokens/s"


def picture(glance: Glance, screen: Console) -> RenderableType:
    """A look as a screen."""
    if glance.state is None:
        return Text(f"{glance.name}: no run.json yet, waiting")
    state, counts = glance.state, glance.counts
    heard = f"  heard from {age(time.time() - state.heartbeat)} ago" if state.heartbeat else ""
    what = " / ".join(value for value in state.names.values() if value)
    return Group(
        Text.assemble(
            (glance.name, "bold"), "  ", status_text(glance.status), (safe_line(f"  {what}"), "dim")
        ),
        Text(safe_line(state.reason)) if state.reason else Text(""),
        _bar(glance, screen),
        accounting_line(counts).append(
            "  at last report" if glance.status == DEAD else "", style="dim"
        ),
        Text(
            f"{thousands(state.tokens.output)} output tokens   now {_speed(glance)}   "
            f"overall {_overall(glance)}"
        ),
        Text(""),
        _categories(glance.stats, screen),
        Text(f"\n{heard.strip()}   Ctrl-C ends watching, not the run", "dim"),
    )


def _bar(glance: Glance, screen: Console) -> RenderableType:
    planned = glance.counts.planned
    grid = Table.grid(padding=(0, 1, 0, 0))
    width = max(10, min(60, screen.width - 30))
    bar = ProgressBar(
        total=max(1, planned),
        completed=glance.finished,
        width=width,
        complete_style="cyan",
        finished_style="green",
    )
    of = f"{glance.finished:,}/{planned:,}"
    grid.add_row(bar, share(glance.finished, planned), of)
    return grid


def _categories(stats: Stats, screen: Console) -> Table:
    columns = ("category", ">judged", ">rejected", ">flags", ">cut", ">median", ">p99", ">tokens")
    table = new_table(screen, *columns)
    groups = dict(sorted(stats.categories.items()))
    if len(groups) > 1:
        groups["all"] = stats.all()
    return fill(table, (_row(name, one) for name, one in groups.items()))


def _row(name: str, one: CategoryStats) -> tuple[str, ...]:
    total = one.lengths["total"]
    return (
        safe_line(name),
        thousands(one.samples),
        thousands(one.rejected),
        thousands(one.flagged),
        share(one.finish["length"], one.samples),
        thousands(total.quantile(0.5)),
        thousands(total.quantile(0.99)),
        thousands(one.output_tokens),
    )


def _farewell(glance: Glance, screen: Console) -> None:
    end = {
        DEAD: "was killed; the same command continues it",
        RunStatus.DONE.value: "is done",
    }.get(glance.status, f"ended: {glance.status}")
    say(screen, f"The run {end}. More: python -m runner.runs show {glance.name}")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600 seconds")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument(
        "--interval-s", metavar="S", type=_seconds, default=2.0, help="seconds between looks (2)"
    )


COMMAND = Command(
    name="watch",
    summary="a running run, live",
    text="""A running run, live, until it ends. It only reads files: it cannot disturb the
run.

`now` is the speed of the last minute, `overall` that since generation began.
Elsewhere than on a terminal it writes a line whenever something changed.

  python -m runner.runs watch latest
  python -m runner.runs watch latest --interval-s 30 >> watch.log
""",
    add_arguments=add_arguments,
    run=run_watch,
)
