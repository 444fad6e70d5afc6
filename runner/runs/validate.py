"""`validate`: judge the samples of a run again, without a server."""

import argparse
import os
import re
import time
from pathlib import Path

from rich.console import Console

from runner.cli import CONF
from runner.errors import ConfigError
from runner.plugins import override_validators
from runner.rejudge import Rejudged, read_settings, rejudge
from runner.runs.command import Command, add_run, at_least
from runner.runs.compare import compare
from runner.runs.opening import open_run
from runner.runs.screen import say
from runner.view.figures import duration, plural, thousands
from runner.view.status import choose_set, read_state

SET_NAME = "rejudged"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def run_validate(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    run = open_run(arguments.run, arguments.outputs)
    own = choose_set(run, read_state(run), None)
    _check_name(arguments.set, own)
    settings = read_settings(run)
    entries = override_validators(
        settings.validators, arguments.overrides, CONF, config_dir=arguments.config_dir
    )
    began = time.monotonic()
    made = rejudge(
        read_settings(run, entries),
        arguments.set,
        processes=arguments.processes or os.cpu_count() or 1,
        progress=lambda done, total: _progress(screen, done, total),
    )
    _summary(made, arguments.set, time.monotonic() - began, screen)
    if run.verdicts(own).is_dir():
        compare(run, own, arguments.set, screen)
    return 0


def _check_name(name: str, own: str) -> None:
    if not _NAME.fullmatch(name) or name == own:
        raise ConfigError(
            "This cannot be the name of a new verdict set.",
            where="--set",
            found=name,
            allowed=f"letters, digits, '.', '_', '-'; not {own}: the run's own counts follow it",
        )


def _progress(screen: Console, done: int, total: int) -> None:
    if screen.is_terminal:
        screen.print(f"judged {done:,} of {total:,}", end="\r")


def _summary(made: Rejudged, name: str, seconds: float, screen: Console) -> None:
    speed = made.tokens / seconds if seconds > 0 else 0.0
    say(
        screen,
        f"set {name}: {plural(made.samples, 'sample')}, {thousands(made.rejected)} rejected; "
        f"{thousands(made.tokens)} output tokens in {duration(seconds)} ({speed:,.0f}/s)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="OVERRIDE",
        help="validators=strict, validators.NAME.KEY=VALUE, ~validators.NAME",
    )
    parser.add_argument(
        "--config-dir",
        metavar="DIR",
        type=Path,
        help="a folder with sets of your own, DIR/validators/NAME.yaml",
    )
    parser.add_argument(
        "--set", metavar="NAME", default=SET_NAME, help=f"the new set's name ({SET_NAME})"
    )
    parser.add_argument(
        "--processes", type=at_least(1), metavar="N", help="judging processes (all cores)"
    )


COMMAND = Command(
    name="validate",
    summary="judge a run's samples again, with any validators, without a server",
    text="""Judge the samples of a run again, from its directory alone, in parallel.

The verdicts become a set of their own beside the run's; nothing else changes.
Without overrides the validators are those of the run's own config. Afterwards
both sets are compared by reason.

  python -m runner.runs validate latest
  python -m runner.runs validate latest validators=strict --set strict
  python -m runner.runs validate latest ~validators.answer
  python -m runner.runs validate latest --config-dir myconf validators=mine
  python -m runner.runs show latest --set strict
  python -m runner.runs show latest --compare strict
""",
    add_arguments=add_arguments,
    run=run_validate,
)
