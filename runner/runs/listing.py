"""`list`: all runs, newest first."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from runner.errors import MachineError
from runner.rundir import RunDir, RunState, short_id
from runner.runs.command import Command, add_json
from runner.runs.opening import all_runs
from runner.runs.screen import fill, new_table, say, say_json, say_table, status_text
from runner.view.escape import safe_line
from runner.view.figures import age, compact, per_second, thousands
from runner.view.status import DEAD, shown_status

UNREADABLE = "unreadable"
WIDE_COLUMNS = 120
_NAMES = ("model", "category", "mode", "sampling")

Row = dict[str, Any]
"""One run for --json: plain values, numbers as numbers."""


def read_rows(outputs: Path) -> list[Row]:
    """All runs under `outputs`, newest first. One that cannot be read is a row that says so."""
    return sorted(
        (row_of(run) for run in all_runs(outputs)), key=lambda row: row["created_at"], reverse=True
    )


def row_of(run: RunDir) -> Row:
    """One run as a row."""
    task, name = run.path.parent.name, run.path.name
    try:
        state = run.read()
    except MachineError as error:
        return {
            "id": name,
            "task": task,
            "status": UNREADABLE,
            "reason": error.found,
            "path": str(run.path),
            "created_at": 0.0,
        }
    return {
        "id": name,
        "task": task,
        "status": shown_status(run, state),
        "reason": state.reason,
        "path": str(run.path),
        "created_at": state.created_at,
        **_numbers(state),
        **{key: state.names.get(key, "") for key in _NAMES},
        "mlflow_run_id": state.mlflow_run_id,
    }


def _numbers(state: RunState) -> Row:
    counts = state.counts
    return {
        "planned": counts.planned,
        "done": counts.ok + counts.rejected,
        "rejected": counts.rejected,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "pending": counts.pending,
        "prompt_tokens": state.tokens.prompt,
        "output_tokens": state.tokens.output,
        "generate_s": state.generate_s,
        "tokens_per_s": state.tokens_per_s,
    }


def run_list(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    outputs: Path = arguments.outputs
    rows = read_rows(outputs)
    if arguments.json:
        for row in rows:
            say_json(screen, row)
        return 0
    if not rows:
        say(screen, f"No runs under {outputs}. The first one: python -m runner")
        return 0
    print_rows(rows, screen)
    return 0


def print_rows(rows: Sequence[Row], screen: Console) -> None:
    """The table; a narrow terminal gets two short lines for each run."""
    wide = screen.width >= WIDE_COLUMNS
    first = ("run", "task") if wide else ("run",)
    rejected = ">rejected" if wide else ">rej"
    last = ("model/category/mode/sampling",) if wide else ()
    numbers = (">done/planned", rejected, ">output", ">tok/s", ">age")
    table = new_table(screen, *first, "=status", *numbers, *last)
    say_table(screen, fill(table, (_cells(row, wide=wide) for row in rows)))
    if any(row["status"] == DEAD for row in rows):
        say(screen, ("* at its last report; `show` counts the files", "dim"))


def _cells(row: Row, *, wide: bool) -> Sequence[str | Text]:
    what = "/".join(row.get(key) or "-" for key in _NAMES)
    if wide:
        return (
            safe_line(short_id(row["id"])),
            safe_line(row["task"]),
            *_figures(row),
            safe_line(what),
        )
    first = Text(safe_line(" ".join(row.get(key) or "-" for key in _NAMES[1:])))
    under = f"\n{short_id(row['id'])} {row.get('model', '')} ({row['task']})"
    return (first.append(safe_line(under).replace("\\n", "\n"), "dim"), *_figures(row))


def _figures(row: Row) -> Sequence[str | Text]:
    if row["status"] == UNREADABLE:
        return (status_text(UNREADABLE), "-", "-", "-", "-", "-")
    star = "*" if row["status"] == DEAD else ""
    return (
        status_text(row["status"]),
        f"{star}{thousands(row['done'])}/{thousands(row['planned'])}",
        thousands(row["rejected"]),
        compact(row["output_tokens"]),
        per_second(row["tokens_per_s"]),
        age(time.time() - row["created_at"]),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_json(parser, "one line of JSON for each run")


COMMAND = Command(
    name="list",
    summary="all runs: how far, how many rejected, how fast",
    text="""All runs under the outputs folder, newest first.

`dead` is a run that was killed (kill -9, power): nothing that it finished is
lost, and the same command continues it; its figures are those of its last
report (`show` counts the files). The eight characters in the first
column name the run in other commands. `tok/s` are output tokens per second of
the bulk: canary and probe are left out, warm-up and tail are not.

  python -m runner.runs list
  python -m runner.runs list --json | jq -r 'select(.status == "done") | .path'
""",
    add_arguments=add_arguments,
    run=run_list,
)
