"""`requeue`: ask for some samples again."""

import argparse
import textwrap

from rich.console import Console

from runner.errors import ConfigError
from runner.requeue import FIELDS, check_allowed, choose, requeue
from runner.runs.command import Command, add_run
from runner.runs.opening import need_state, open_run
from runner.runs.screen import say
from runner.runs.show import accounting_line
from runner.view.figures import plural
from runner.view.status import choose_set, read_settings


def run_requeue(arguments: argparse.Namespace, screen: Console) -> int:
    """The command: 0 done, also where nothing matched."""
    where = dict(_pair(text) for text in arguments.where)
    if not where and arguments.reason is None:
        raise ConfigError(
            "Nothing says which samples to ask for again.",
            where="requeue",
            next_step="give --reason CODE, --where KEY=VALUE, or both",
        )
    run = open_run(arguments.run, arguments.outputs)
    with run.locked():
        state = need_state(run)
        verdict_set = choose_set(run, state, arguments.set)
        chosen = choose(run, verdict_set, reason=arguments.reason, where=where)
        if not chosen:
            say(screen, "No current sample matches; nothing was changed.")
            return 0
        check_allowed(state, chosen, engine_fault=arguments.engine_fault)
        if arguments.dry_run:
            say(screen, f"{plural(len(chosen), 'sample')} would be asked for again.")
            return 0
        most = read_settings(run).client.retry.max_attempts
        state = requeue(run, state, chosen, why=_why(arguments), max_attempts=most)
    say(screen, f"{plural(len(chosen), 'sample')} will be asked for again by the same command.")
    say(screen, accounting_line(state.counts).plain)
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError("This is no KEY=VALUE.", where="--where", found=text)
    return key, value


def _why(arguments: argparse.Namespace) -> str:
    """What is recorded with each sample: how it was chosen."""
    said = [f"reason {arguments.reason}"] if arguments.reason is not None else []
    said += arguments.where
    return ", ".join(said + (["engine fault"] if arguments.engine_fault else []))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument("--reason", metavar="CODE", help="samples on which a check gave this")
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="samples with this value; several must all hold",
    )
    parser.add_argument(
        "--set", metavar="NAME", help="the verdict set to read (default: the run's)"
    )
    parser.add_argument(
        "--engine-fault",
        action="store_true",
        help="state that the engine was at fault: needed for samples of a greedy run that passed",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say how many there are")


COMMAND = Command(
    name="requeue",
    summary="ask for some samples again",
    text=f"""Samples that are chosen count no more; the run's own command asks for them
again, under the same ids with `try` + 1. The old ones stay in the shards and
are named in samples/superseded.jsonl; readers and exports pass over them.

  python -m runner.runs requeue latest --reason unassigned
  python -m runner.runs requeue latest --where launch=3 --where category=B4

KEY is one of:
{textwrap.fill(", ".join(FIELDS), 78, initial_indent="  ", subsequent_indent="  ")}
""",
    add_arguments=add_arguments,
    run=run_requeue,
)
