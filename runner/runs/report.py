"""`report`: make a run's page again."""

import argparse

from rich.console import Console

from runner.errors import MachineError
from runner.report import REPORT_NAME, make_report
from runner.runs.command import Command, add_run
from runner.runs.opening import open_run
from runner.runs.screen import say
from runner.view.escape import safe
from runner.view.figures import bytes_text, plural
from runner.view.status import choose_set, read_state


def run_report(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    run = open_run(arguments.run, arguments.outputs)
    if arguments.set is not None:
        choose_set(run, read_state(run), arguments.set)
    try:
        data = make_report(run, verdict_set=arguments.set)
    except OSError as error:
        raise MachineError(
            f"The report cannot be written: {error.strerror or error}.",
            where=str(run.path / REPORT_NAME),
            next_step="check the space and the permissions of the run directory",
        ) from error
    path = run.path / REPORT_NAME
    shown = plural(len(data.samples), "sample")
    say(screen, f"{path}  ({bytes_text(path.stat().st_size)}, {shown} shown)")
    if not data.facts.whole.samples:
        say(screen, "The run has no judged samples yet.")
    if data.note:
        say(screen, f"No sample could be decoded: {safe(data.note)}")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument(
        "--set", metavar="NAME", help="the verdict set to read (default: the run's)"
    )


COMMAND = Command(
    name="report",
    summary="make a run's page, report/index.html, again",
    text="""Makes report/index.html of a run from its files: one page with everything in it,
to be opened in a browser or sent to somebody. The runner makes it at the end of
every run; this makes it of a live run, of one that was killed, or with other
verdicts.

  python -m runner.runs report latest
""",
    add_arguments=add_arguments,
    run=run_report,
)
