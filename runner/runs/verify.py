"""`verify`: is everything there, and is it what was written?"""

import argparse
from collections.abc import Iterator

import msgspec
from rich.console import Console

from runner.runs.checks import Checked, Fault, Report, check_run
from runner.runs.command import Command, add_json, add_run
from runner.runs.opening import name_of, open_run
from runner.runs.screen import fill, new_table, say, say_json, say_table
from runner.runs.show import accounting_line
from runner.view.escape import safe_line
from runner.view.figures import bytes_text, duration, plural, thousands

MAX_SHOWN = 50
"""Problems listed on a screen; --json lists all."""


def run_verify(arguments: argparse.Namespace, screen: Console) -> int:
    """The command: 0 all is well, 1 something is wrong."""
    run = open_run(arguments.run, arguments.outputs)
    report = check_run(run, full=arguments.full)
    if arguments.json:
        say_json(screen, {**msgspec.to_builtins(report), "ok": report.ok})
    else:
        _print(report, name_of(run, arguments.outputs), screen)
    return 0 if report.ok else 1


def _print(report: Report, name: str, screen: Console) -> None:
    say(screen, (safe_line(report.run_id), "bold"), "  (running)" if report.live else "")
    columns = ("looked at", ">shards", ">frames", ">records", ">JSON", ">open tail")
    table = new_table(screen, *columns)
    say_table(screen, fill(table, (_row(one) for one in report.checked)))
    for line in _summary(report):
        say(screen, line)
    if report.counts is not None and report.counts.planned:
        say(screen, accounting_line(report.counts).plain)
    for note in report.notes:
        say(screen, ("note: ", "yellow"), safe_line(note))
    say(screen, "")
    for fault in report.problems[:MAX_SHOWN]:
        say(screen, ("problem: ", "bold red"), fault_line(fault))
    if len(report.problems) > MAX_SHOWN:
        say(screen, f"and {len(report.problems) - MAX_SHOWN:,} more; --json lists all of them")
    if report.ok:
        say(screen, ("All is well.", "bold green"))
    else:
        problems = plural(len(report.problems), "problem")
        say(screen, (f"{problems}. Nothing was changed.", "bold red"))
        say(screen, f"Damaged files are mended by: python -m runner.runs repair {safe_line(name)}")


def _row(one: Checked) -> tuple[str, ...]:
    return (
        safe_line(one.folder),
        thousands(one.shards),
        thousands(one.frames),
        thousands(one.records),
        bytes_text(one.raw_bytes),
        bytes_text(one.tail_bytes) if one.tail_bytes else "-",
    )


def _summary(report: Report) -> Iterator[str]:
    yield (
        f"{plural(report.samples, 'sample')} with {thousands(report.tokens)} tokens, each id and "
        f"count looked at, in {duration(report.seconds)}"
    )
    if not report.full:
        yield "every frame's checksum and every file's hash too; --full also parses every line"


def fault_line(fault: Fault) -> str:
    """A problem in one line: where, then what."""
    frame = f" frame {fault.frame}" if fault.frame >= 0 else ""
    offset = f" at byte {fault.offset:,}" if fault.offset >= 0 else ""
    place = " ".join(part for part in (f"{fault.file}{frame}{offset}", fault.sample_id) if part)
    return safe_line(f"{place}: {fault.what}" if place else fault.what)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument(
        "--full", action="store_true", help="also parse every line and compare the index files"
    )
    add_json(parser, "the whole report as one JSON document")


COMMAND = Command(
    name="verify",
    summary="is everything there, and is it what was written?",
    text="""Checks a run's files: every frame's checksum, every sealed file's hash and
counts; then every sample: ids within the vocabulary, counts that agree with
the ids, an id that the plan knows with the same prompt, no id twice; then
that the accounting balances. Changes nothing. Exit 1 when something is wrong.
A live run is checked up to its last whole frame.

Damaged files are mended by `repair`.

  python -m runner.runs verify latest
  python -m runner.runs verify latest --full --json | jq .problems
""",
    add_arguments=add_arguments,
    run=run_verify,
)
