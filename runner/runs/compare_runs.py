"""`compare`: several runs side by side, by what differs in config and in results."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from runner.errors import ConfigError
from runner.report.attempts import settings_of
from runner.rundir import RunDir, reference_of
from runner.runs.command import RUN_HELP, Command, add_json
from runner.runs.opening import open_run
from runner.runs.screen import fill, new_table, say, say_json, say_table
from runner.stats import Stats
from runner.view.comparing import Row, category_rows, reason_rows, result_rows, setting_rows
from runner.view.escape import safe_line
from runner.view.facts import fold, verdict_set_of
from runner.view.status import read_state, shown_status


class Side(NamedTuple):
    """One run of the comparison."""

    name: str
    path: str
    status: str
    settings: dict[str, str]
    stats: Stats
    tokens_per_s: float | None


TITLES = {
    "settings": "Settings that differ",
    "results": "Results",
    "reasons": "Reasons, as shares of the samples",
    "categories": "Categories",
}


def run_compare(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    sides = [side_of(run) for run in _different(arguments.runs, arguments.outputs)]
    tables = tables_of(sides)
    if arguments.json:
        say_json(screen, as_json(sides, tables))
        return 0
    for side in sides:
        say(screen, (safe_line(side.name), "bold"), f"  {safe_line(side.path)}")
    for key, rows in tables.items():
        _say_rows(screen, TITLES[key], rows, sides)
    return 0


def _different(names: Sequence[str], outputs: Path) -> list[RunDir]:
    """The runs that are named. Raises ConfigError for one that is named twice."""
    runs = {run.path: run for run in (open_run(name, outputs) for name in names)}
    if len(runs) < len(names):
        raise ConfigError(
            "A run cannot be compared with itself.",
            where="RUN",
            found=" ".join(names),
            allowed="two different runs or more",
        )
    return list(runs.values())


def as_json(sides: Sequence[Side], tables: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """The whole comparison: table -> row -> run -> value."""
    names = [side.name for side in sides]
    plain = {
        key: {row.name: dict(zip(names, row.values, strict=True)) for row in rows}
        for key, rows in tables.items()
    }
    return {"runs": {side.name: side.path for side in sides}, **plain}


def side_of(run: RunDir) -> Side:
    """Read one run. Raises MachineError, DamagedShard."""
    state = read_state(run)
    return Side(
        name=reference_of(run),
        path=str(run.path),
        status=shown_status(run, state),
        settings=settings_of(run.path),
        stats=fold(run, verdict_set_of(run)),
        tokens_per_s=state.tokens_per_s if state else None,
    )


def tables_of(sides: Sequence[Side]) -> dict[str, list[Row]]:
    """The parts of the comparison."""
    stats = [side.stats for side in sides]
    speeds, statuses = [s.tokens_per_s for s in sides], [s.status for s in sides]
    return {
        "settings": setting_rows([side.settings for side in sides]),
        "results": result_rows(stats, speeds, statuses),
        "reasons": reason_rows(stats),
        "categories": category_rows(stats),
    }


def _say_rows(screen: Console, title: str, rows: Sequence[Row], sides: Sequence[Side]) -> None:
    say(screen, "")
    if not rows:
        say(screen, (f"{title}: none.", "dim"))
        return
    names = [safe_line(side.name) for side in sides]
    table = new_table(screen, "", *names, title=title)
    cells = ([safe_line(row.name), *map(safe_line, row.values)] for row in rows)
    say_table(screen, fill(table, cells))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("runs", metavar="RUN", nargs="+", action=_AtLeastTwo, help=RUN_HELP)
    add_json(parser, "all of it as one JSON document")


class _AtLeastTwo(argparse.Action):
    """Two runs make a comparison."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if not isinstance(values, list) or len(values) < 2:
            parser.error("compare needs two runs or more")
        setattr(namespace, self.dest, values)


COMMAND = Command(
    name="compare",
    summary="several runs side by side: what differs in config and in results",
    text="""Puts runs side by side: the settings that differ, the figures, how often each
check found something, and each category. The first run need not be the better
one: nothing is judged here.

  python -m runner.runs compare 1f6cad1c 7fb04d30
  python -m runner.runs compare B4-greedy B4-sampled --json | jq .results
""",
    add_arguments=add_arguments,
    run=run_compare,
)
