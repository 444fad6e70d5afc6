"""`make bench`: run the benchmarks and write what they print into docs/benchmarks.md.

    python -m benchmarks.page [--only NAME ...] [--write]

What a benchmark printed is kept in outputs/.benchmarks/, so one can be run again alone (`--only`)
and the page is made of all; `--write` runs none. Every figure on the page comes from a run on one
machine; the ratios are what can be compared between machines.
"""

import argparse
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "outputs" / ".benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"


class Section(NamedTuple):
    """One benchmark: its module with arguments, and what to look at in its figures."""

    name: str
    title: str
    arguments: tuple[str, ...]
    about: str


SECTIONS = (
    Section(
        "utilisation",
        "Keeping a server full",
        ("--prompts", "4000", "--slots", "32", "--scale", "1"),
        "Makespan on a simulated server that batches continuously, beside what people write "
        "instead. To reach: at most 1.05 of the bare aiohttp loop with one category, below 1 where "
        "expected lengths tell the long ones. `of bound` is the share of what list scheduling in "
        "the same order of arrival reaches.",
    ),
    Section(
        "auto",
        "`client.concurrency: auto`",
        (),
        "To reach: at most 1.10 of the best fixed number, also where the best number changes in "
        "the middle of the run.",
    ),
    Section(
        "auto_sockets",
        "The same over real sockets",
        ("--machines", "32 slots", "a cache for about 35"),
        "The whole runner over a simulated server on loopback. To reach: at most 1.10 of the best "
        "fixed number.",
    ),
    Section(
        "client",
        "What asking costs",
        ("--concurrency", "64,256"),
        "CPU of the client path, checks and shards included. To reach: at most 2 times the bare "
        "aiohttp and orjson loop.",
    ),
    Section("shards", "Shards", (), "Writing and reading the record."),
    Section("judging", "Validators", (), "What judging costs beside generating."),
    Section(
        "memory",
        "Memory and the number of prompts",
        (),
        "Peak of the whole runner. To reach: below 500 MB at a million prompts, which follows from "
        "what one more prompt costs.",
    ),
    Section(
        "prompts",
        "Planning",
        ("--plan", "200000"),
        "Reading, selecting, rendering and writing the plan. To reach: hardly more memory for "
        "twenty times the prompts.",
    ),
    Section("ledger", "Resuming", (), "What a run of 1.1 million samples costs before it sends."),
    Section(
        "startup",
        "Start-up, and from job to job",
        (),
        "To reach: at most 1 s from job to job of a sweep that shares a server.",
    ),
    Section(
        "tracking",
        "Tracking",
        (),
        "What telling MLflow costs the one who tells. To reach: no call waits for MLflow, whatever "
        "it does.",
    ),
)


def run(section: Section) -> bool:
    """Run one and keep what it prints, with its exit code when that is not 0 (a crash, or a limit
    of its own that was not met); then False."""
    command = [sys.executable, "-m", f"benchmarks.{section.name}", *section.arguments]
    print(f"{section.name} ...", end=" ", flush=True)
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    took = time.monotonic() - start
    print(f"{took:.0f} s" + (f", exit {done.returncode}" if done.returncode else ""), flush=True)
    note = f"\nended with exit code {done.returncode}\n" if done.returncode else ""
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{section.name}.txt").write_text(done.stdout + note)
    return done.returncode == 0


def page() -> str:
    """The whole page, from what is kept."""
    cores, system = os.cpu_count(), platform.machine()
    head = (
        "# Benchmarks\n\nMade by `make bench` (`python -m benchmarks.page`); do not edit. Times "
        f"were taken on {cores} cores ({system}, Python {platform.python_version()}) that other "
        "work used too: compare the ratios, each of which is of one run.\n"
    )
    return "\n".join([head, *(_section(one) for one in SECTIONS)])


def _section(section: Section) -> str:
    file = KEPT / f"{section.name}.txt"
    command = shlex.join(["python", "-m", f"benchmarks.{section.name}", *section.arguments])
    figures = file.read_text().rstrip() if file.is_file() else "not run yet"
    return f"## {section.title}\n\n{section.about}\n\n    {command}\n\n```text\n{figures}\n```\n"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    names = [section.name for section in SECTIONS]
    arguments.add_argument("--only", nargs="*", choices=names, default=names)
    arguments.add_argument("--write", action="store_true", help="only make the page")
    given = arguments.parse_args()
    chosen = [] if given.write else [s for s in SECTIONS if s.name in given.only]
    failed = [section.name for section in chosen if not run(section)]
    PAGE.write_text(page())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
