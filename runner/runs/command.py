"""What a command of `python -m runner.runs` is, and the arguments that several of them share."""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

OUTPUTS_VARIABLE = "RAWTOK_OUTPUTS"
RUN_HELP = "a run directory, a part of a run's name ([TASK/]PART), or `latest`"


@dataclass(frozen=True)
class Command:
    """One command. `summary` is its line in the list, `text` its help with an example.

    `run` gives the exit code: 0 done, 1 something is wrong with the run or this machine.
    """

    name: str
    summary: str
    text: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Console], int]


def add_run(parser: argparse.ArgumentParser) -> None:
    """The argument RUN."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


def add_json(parser: argparse._ActionsContainer, what: str) -> None:
    """The switch --json."""
    parser.add_argument("--json", action="store_true", help=f"{what}, for scripts")


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The option --outputs, which every command has."""
    parser.add_argument(
        "--outputs",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get(OUTPUTS_VARIABLE) or "outputs"),
        help=f"where the runs are (default: ${OUTPUTS_VARIABLE}, else ./outputs)",
    )


def at_least(lowest: int) -> Callable[[str], int]:
    """An argparse type: a whole number, `lowest` or more."""

    def whole_number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = lowest - 1
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {lowest} or more")
        return value

    return whole_number
