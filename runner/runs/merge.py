"""`merge`: one run of the parts of a partitioned one."""

import argparse
from pathlib import Path

from rich.console import Console

from runner.errors import ConfigError
from runner.merge import merge
from runner.runs.command import RUN_HELP, Command
from runner.runs.opening import open_run
from runner.runs.screen import say
from runner.runs.show import accounting_line
from runner.view.figures import plural
from runner.view.status import read_settings


def run_merge(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    runs = {run.path: run for run in (open_run(r, arguments.outputs) for r in arguments.runs)}
    if len(runs) < 2:
        raise ConfigError("One run alone cannot be merged.", where="RUN", found=str(len(runs)))
    first = next(iter(runs.values()))
    most = read_settings(first).client.retry.max_attempts
    merged = merge(list(runs.values()), arguments.into, max_attempts=most)
    say(screen, f"{plural(len(runs), 'run')} merged: {merged.path}")
    if merged.folded:
        say(screen, f"{plural(merged.folded, 'exact duplicate')} folded")
    say(screen, accounting_line(merged.state.counts).plain)
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--into", metavar="DIR", type=Path, help="where (default: where the whole run would be)"
    )


COMMAND = Command(
    name="merge",
    summary="one run of the parts of a partitioned one",
    text="""Makes one run of runs with one identity: those that were made with
partition.index of partition.of, or copies that went apart. Exact duplicates
are folded; the same id with two answers is refused and listed. The parts stay
as they are.

  python -m runner.runs merge 1f6cad1c.p0of2 1f6cad1c.p1of2
""",
    add_arguments=add_arguments,
    run=run_merge,
)
