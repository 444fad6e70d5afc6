"""`sync`: send to MLflow what it has not got of a run."""

import argparse

from rich.console import Console

from runner.runs.command import Command, add_run
from runner.runs.opening import open_run
from runner.runs.screen import say
from runner.view.escape import safe
from runner.view.figures import plural


def run_sync(arguments: argparse.Namespace, screen: Console) -> int:
    """The command: 0 when MLflow has everything (or the run itself is still sending)."""
    from runner import tracking  # late: mlflow takes seconds

    run = open_run(arguments.run, arguments.outputs)
    report = tracking.sync(run.path, uri=arguments.uri, say=lambda text: say(screen, safe(text)))
    if report.live:
        say(screen, "The run is running and sends by itself; nothing was done.")
        return 0
    if report.mended:
        say(screen, "The run was killed; MLflow now shows it as interrupted.")
    refused = f", {report.refused_events:,} refused" if report.refused_events else ""
    if report.sent_events or refused:
        say(screen, f"Sent {plural(report.sent_events, 'event')}{refused} to {safe(report.uri)}")
    else:
        say(screen, f"Nothing was missing at {safe(report.uri)}")
    say(screen, f"MLflow run {report.mlflow_run_id}  {report.url}".rstrip())
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument("--uri", metavar="URI", help="another MLflow than the run's own")


COMMAND = Command(
    name="sync",
    summary="send to MLflow what it has not got of a run",
    text="""Sends to MLflow what is missing of a run, from its own files: after MLflow was
down, after the run was killed, or to another server. Doing it twice changes
nothing.

  python -m runner.runs sync latest
  python -m runner.runs sync latest --uri http://127.0.0.1:5000
""",
    add_arguments=add_arguments,
    run=run_sync,
)
