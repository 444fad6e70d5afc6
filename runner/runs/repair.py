"""`repair`: mend a run whose files are damaged."""

import argparse

from rich.console import Console

from runner.repair import repair, settle_state
from runner.runs.command import Command, add_run
from runner.runs.opening import need_state, open_run
from runner.runs.screen import say
from runner.runs.show import accounting_line
from runner.view.figures import bytes_text, plural
from runner.view.status import read_settings


def run_repair(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    run = open_run(arguments.run, arguments.outputs)
    with run.locked():
        state = need_state(run)
        done = repair(run)
        most = read_settings(run).client.retry.max_attempts
        state = settle_state(run, state, done, max_attempts=most)
    for folder, report in done.folders.items():
        if report.mended:
            taken = bytes_text(report.quarantined_bytes)
            say(screen, f"{folder}: {', '.join(report.mended)}: {taken} moved to quarantine/")
        if report.rebuilt.forgotten:
            say(screen, f"{folder}: gone: {', '.join(report.rebuilt.forgotten)}")
    if done.lost:
        say(screen, f"{plural(done.lost, 'judged sample')} lost; they are asked for again")
    if done.replan:
        say(screen, "plan and prompts were damaged and moved to quarantine/; they are made again")
    if not done.changed:
        say(screen, "No frame is damaged. Manifests and indexes were made again.")
    say(screen, accounting_line(state.counts).plain)
    say(screen, "next: verify, then the same `python -m runner ...` command")
    return 0


COMMAND = Command(
    name="repair",
    summary="mend a run whose files are damaged",
    text="""Makes manifests and indexes again from the frames, and takes damaged frames
out: their bytes go to quarantine/ beside the shards, and the samples in them
are owed again (the run's own command asks for them). Intact frames are copied
as they are. No process may be working on the run.

  python -m runner.runs repair latest
""",
    add_arguments=add_run,
    run=run_repair,
)
