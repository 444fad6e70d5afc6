"""`python -m runner.runs`: the tool for finished and running runs. To add a command, write a module
with a `COMMAND` and name it in `COMMANDS`.

Exit codes: 0 done, 1 something is wrong with the run or this machine, 2 the command is wrong.
"""

import argparse

from rich.console import Console

from runner.errors import MachineError, RunnerError
from runner.runs import (
    compare_runs,
    decode,
    export,
    listing,
    merge,
    parity,
    repair,
    report,
    requeue,
    show,
    stop,
    sync,
    validate,
    verify,
    watch,
)
from runner.runs.command import RUN_HELP, Command, add_outputs
from runner.runs.screen import open_screen
from runner.view.escape import safe

COMMANDS: dict[str, Command] = {
    module.COMMAND.name: module.COMMAND
    for module in (
        listing,
        show,
        watch,
        decode,
        report,
        compare_runs,
        verify,
        validate,
        parity,
        export,
        requeue,
        repair,
        merge,
        stop,
        sync,
    )
}

__all__ = ["COMMANDS", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command line; gives its exit code. argparse exits by itself for a wrong one (2)."""
    arguments = parse(argv)
    screen = open_screen()
    try:
        return arguments.command.run(arguments, screen)  # type: ignore[no-any-return]
    except RunnerError as error:
        return _complain(error)
    except PermissionError as error:
        return _complain(
            MachineError(
                f"The machine refused a file operation: {error.strerror}.",
                where=str(error.filename or ""),
                next_step="check who owns the run directory",
            )
        )
    except KeyboardInterrupt:
        return 130


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The arguments. argparse takes a list of words at one place only; overrides may stand behind
    options too."""
    parser = make_parser()
    arguments, rest = parser.parse_known_args(argv)
    takes_words = hasattr(arguments, "overrides")
    if rest and (not takes_words or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.overrides = [*arguments.overrides, *rest]
    return arguments


def _complain(error: RunnerError) -> int:
    Console(stderr=True, highlight=False, markup=False, emoji=False).print(
        f"error: {safe(str(error))}", soft_wrap=True
    )
    return error.exit_code


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m runner.runs",
        allow_abbrev=False,
        description="Look at finished and running runs; the installed name is rawtok-runs.",
        epilog=f"RUN is {RUN_HELP}. Example: python -m runner.runs decode latest --shortest 2",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS.values():
        one = commands.add_parser(
            command.name,
            allow_abbrev=False,
            help=command.summary,
            description=command.text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(one)
        add_outputs(one)
        one.set_defaults(command=command)
    return parser
