"""`show`: one run in full."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from runner.performance import lines, read_performance
from runner.records import Counts, SetFinding
from runner.rundir import RunDir, reference_of
from runner.runs.command import Command, add_json, add_run
from runner.runs.compare import compare
from runner.runs.opening import open_run
from runner.runs.screen import fill, new_table, say, say_json, say_labelled, say_table, status_text
from runner.view.escape import safe, safe_line
from runner.view.facts import Facts, Figures, Reason, read_facts
from runner.view.figures import age, duration, per_second, plural, share, thousands
from runner.view.status import DEAD, choose_set

_SEVERITY_STYLES = {"reject": "red", "error": "red", "flag": "yellow", "info": "dim"}


def run_show(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    run = open_run(arguments.run, arguments.outputs)
    facts = read_facts(run, verdict_set=arguments.set)
    if arguments.compare is not None:
        compare(run, facts.verdict_set, choose_set(run, facts.state, arguments.compare), screen)
        return 0
    if arguments.json:
        plain = msgspec.to_builtins(facts)
        say_json(screen, plain)
        return 0
    _head(facts, screen)
    _verdicts(facts, screen)
    _findings(facts, screen)
    _losses(facts, screen)
    _lengths(facts, screen)
    _files(run, facts, screen)
    return 0


def _head(facts: Facts, screen: Console) -> None:
    say(screen, (safe_line(facts.run_id), "bold"), "  ", *_status_parts(facts))
    if facts.reason:
        say(screen, safe(facts.reason))
    say(screen, "")
    for name, value in _head_lines(facts):
        say_labelled(screen, name, value, width=12)


def _status_parts(facts: Facts) -> tuple[tuple[str, str], ...]:
    text = status_text(facts.status)
    explained = "  killed; the same command continues it" if facts.status == DEAD else ""
    return ((text.plain, str(text.style)), (explained, "dim"))


def _head_lines(facts: Facts) -> Iterator[tuple[str, Text]]:
    yield (
        "accounting",
        accounting_line(facts.counts)
        if facts.planned
        else Text("no whole plan yet: nothing is owed and nothing was sent"),
    )
    if facts.unplanned:
        yield "", Text(f"and {plural(facts.unplanned, 'sample')} that the plan no longer wants")
    whole, state = facts.whole, facts.state
    speed = per_second(state.tokens_per_s if state else None)
    took = f" over {duration(state.generate_s)}" if state and state.generate_s > 0 else ""
    yield (
        "tokens",
        Text(
            f"{thousands(whole.prompt_tokens)} prompt, {thousands(whole.output_tokens)} output; "
            f"{speed} output tokens/s{took}"
        ),
    )
    yield "finish", finish_line(whole)
    if state and (performance := read_performance(state.performance)) is not None:
        yield from ((what, Text(text)) for what, text in lines(performance))
    if state:
        started = f", begun {age(time.time() - state.created_at)} ago" if state.created_at else ""
        launches = plural(state.launches, "server launch", many="server launches")
        yield "attempts", Text(f"{plural(state.attempts, 'attempt')}, {launches}{started}")
    if state and state.gates:
        yield "gates", Text(safe_line(", ".join(f"{k}: {v}" for k, v in state.gates.items())))


def accounting_line(counts: Counts) -> Text:
    """planned = ok + rejected + failed + skipped + pending, and whether it balances."""
    names = ("ok", "rejected", "failed", "skipped", "pending")
    line = f"{counts.planned:,} planned = " + " + ".join(
        f"{getattr(counts, name):,} {name}" for name in names
    )
    if counts.balanced:
        return Text.assemble(line, ("  (balances)", "green"))
    return Text.assemble(line, ("  (DOES NOT BALANCE: run verify)", "bold red"))


def finish_line(figures: Figures) -> Text:
    """How the samples ended, with the share that was cut short."""
    if not figures.samples:
        return Text("no judged samples yet")
    stop = figures.finish.get("stop", 0)
    text = Text(f"{stop:,} stopped by themselves, {figures.cut:,} cut by length")
    if figures.cut:
        text.append(f" ({share(figures.cut, figures.samples)} cut short)", "yellow")
    return text


def _verdicts(facts: Facts, screen: Console) -> None:
    say(screen, "")
    samples, reasons = facts.whole.samples, facts.whole.reasons
    if not reasons:
        passed = "No check failed on a sample" if facts.findings else "No check failed"
        what = passed if samples else "No verdicts yet"
        say(screen, (f"{what} (set {facts.verdict_set}, {plural(samples, 'sample')}).", "dim"))
        return
    title = f"Verdicts of set {safe_line(facts.verdict_set)} on {plural(samples, 'sample')}"
    table = new_table(screen, "severity", "validator", "reason", ">count", ">share", title=title)
    say_table(screen, fill(table, (_verdict_row(one, samples) for one in reasons)))


def _verdict_row(one: Reason, samples: int) -> tuple[str | Text, ...]:
    return (
        Text(one.severity, _SEVERITY_STYLES.get(one.severity, "")),
        safe_line(one.validator),
        safe_line(one.reason or "-"),
        thousands(one.count),
        share(one.count, samples),
    )


def _findings(facts: Facts, screen: Console) -> None:
    """What was found over the whole set, which no verdict on a sample tells."""
    if not facts.findings:
        if facts.whole.samples and not facts.concluded:
            text = "Not looked at as a whole set yet (duplicates ...); that comes at a run's end."
            say(screen, (text, "dim"))
        return
    say(screen, "")
    title = "Found over the whole set (no single sample carries these)"
    columns = ("severity", "validator", "reason", "category", ">samples", ">share", "detail")
    table = new_table(screen, *columns, title=title)
    say_table(screen, fill(table, map(_finding_row, facts.findings)))


def _finding_row(one: SetFinding) -> tuple[str | Text, ...]:
    examples = f"such as {', '.join(one.examples)}" if one.examples else ""
    return (
        Text(one.severity, _SEVERITY_STYLES.get(one.severity, "")),
        safe_line(one.validator),
        safe_line(one.reason or "-"),
        safe_line(one.category or "-"),
        thousands(one.samples),
        f"{one.share:.1%}" if one.samples else "-",
        safe_line(one.detail or examples),
    )


def _losses(facts: Facts, screen: Console) -> None:
    for title, reasons in (("Failed", facts.failures), ("Skipped", facts.skips)):
        if reasons:
            say(screen, "")
            table = new_table(screen, "reason", ">count", ">share of planned", title=title)
            planned = facts.counts.planned
            rows = ((safe_line(k), thousands(n), share(n, planned)) for k, n in reasons.items())
            say_table(screen, fill(table, rows))
    for name, over in facts.over_context.items() if facts.skips else ():
        say(screen, (f"{safe_line(name)} {over}", "dim"))


def _lengths(facts: Facts, screen: Console) -> None:
    if not facts.whole.samples:
        return
    say(screen, "")
    columns = ("category", "tokens", ">mean", ">median", ">p90", ">p99", ">max", ">cut")
    table = new_table(screen, *columns, title="Lengths in tokens")
    groups = dict(facts.categories)
    if len(groups) != 1:
        groups["all"] = facts.whole
    for number, (name, figures) in enumerate(groups.items()):
        if number:
            table.add_row("")
        fill(table, _length_rows(name, figures))
    say_table(screen, table)
    say(screen, ("answer counts tool calls too; total is prompt and output", "dim"))


def _length_rows(name: str, figures: Figures) -> Iterator[tuple[str, ...]]:
    for number, (what, q) in enumerate(figures.lengths.items()):
        quantiles = (q.mean, q.median, q.p90, q.p99, q.max)
        first = number == 0
        label = f"{safe_line(name)} ({figures.samples:,})" if first else ""
        cut = share(figures.cut, figures.samples) if first else ""
        yield (label, what, *map(thousands, quantiles), cut)


def _files(run: RunDir, facts: Facts, screen: Console) -> None:
    say(screen, "")
    say(screen, ("Files", "bold"))
    say(screen, f"  {run.path}")
    for path in _interesting(run):
        say(screen, ("  ", ""), str(path.relative_to(run.path)))
    say(screen, "")
    say(screen, ("Next", "bold"))
    commands = list(next_commands(facts))
    width = max(len(command) for command, _ in commands)
    for command, why in commands:
        say_labelled(screen, Text(f"  {command}"), why, width=width + 5, style="dim")


def _interesting(run: RunDir) -> list[Path]:
    attempts = sorted(run.attempts.glob("*"))[-1:]
    logs = [
        path for attempt in attempts for path in sorted(attempt.rglob("*log")) if path.is_file()
    ]
    found = [run.samples, run.path / "verdicts", run.failures, run.path / "report" / "index.html"]
    return [path for path in (*found, *logs) if path.exists()]


def next_commands(facts: Facts) -> Iterator[tuple[str, str]]:
    """What a person would do next, by what the run looks like."""
    name, base = safe_line(reference_of(RunDir(Path(facts.path)))), "python -m runner.runs"
    if facts.status == "running":
        yield f"{base} watch {name}", "live"
    if facts.status in (DEAD, "interrupted"):
        yield "the same `python -m runner ...` command again", "continues the run"
    if facts.whole.reasons:
        reason = facts.whole.reasons[0].reason
        yield f"{base} decode {name} --reason {safe_line(reason)}", "what a check did not like"
    if facts.whole.cut:
        yield f"{base} decode {name} --finish length", "those that were cut short"
    if facts.whole.samples:
        yield f"{base} decode {name}", "shortest, longest, random"
    yield f"{base} verify {name}", "every frame, id and count"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument(
        "--set", metavar="NAME", help="the verdict set to read (default: the run's)"
    )
    parser.add_argument(
        "--compare", metavar="NAME", help="compare with this verdict set, by reason counts, only"
    )
    add_json(parser, "all of it as one JSON document")


COMMAND = Command(
    name="show",
    summary="one run in full: accounting, finish, verdicts, lengths, files",
    text="""One run in full, read from its files: it may be running, finished or killed.

The accounting line must balance: each planned sample is ok, rejected, failed,
skipped or pending. `cut` is the share that reached max_new_tokens before the
model had ended by itself. Tokens/s are those of the bulk, canary and probe left
out, warm-up and tail included; `steady` is the speed between the two. What is
found over the whole set (equal outputs, lengths) is no single sample's.

  python -m runner.runs show latest
  python -m runner.runs show 1f6cad1c --json | jq .counts
""",
    add_arguments=add_arguments,
    run=run_show,
)
