"""`export`: the samples of finished runs as what trainers read."""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import msgspec
from rich.console import Console

from runner.export import FORMATS, Manifest, Options, Policy, Request, RunInput, export
from runner.export.policy import check_names, parse_scores, parse_split
from runner.rundir import RunDir
from runner.runs.command import RUN_HELP, Command, add_json, at_least
from runner.runs.opening import open_run
from runner.runs.screen import fill, new_table, say, say_json, say_table
from runner.view.escape import safe_line
from runner.view.figures import thousands
from runner.view.findings import whole_set_error
from runner.view.reading import read_profile
from runner.view.status import choose_set, read_settings, read_state

NOTHING_EXPORTED = 1
"""The exit code of an export without a sample: a trainer must not be started on it."""


def run_export(arguments: argparse.Namespace, screen: Console) -> int:
    """The command."""
    runs = _inputs([open_run(name, arguments.outputs) for name in arguments.run], arguments.set)
    request = request_of(arguments, _declared(runs))
    _check_single(request.policy, runs)
    quiet = arguments.json
    manifest = export(
        runs,
        arguments.out,
        request,
        overwrite=arguments.overwrite,
        say=(lambda text: None) if quiet else lambda text: say(screen, safe_line(text)),
    )
    if quiet:
        say_json(screen, msgspec.to_builtins(manifest))
    else:
        print_manifest(manifest, arguments.out, screen)
    return 0 if manifest.counts.exported else NOTHING_EXPORTED


def _inputs(runs: Sequence[RunDir], asked: str | None) -> list[RunInput]:
    """The runs, each under a name of its own: two tasks may hold a run of one identity."""
    found = [_input(run, asked) for run in runs]
    names = [given.name for given in found]
    return [
        given
        if names.count(given.name) == 1
        else given._replace(name=f"{given.run.path.parent.name}/{given.name}")
        for given in found
    ]


def _input(run: RunDir, asked: str | None) -> RunInput:
    state = read_state(run)
    return RunInput(
        run=run,
        name=state.run_id if state else run.path.name,
        model=state.names.get("model", "") if state else "",
        verdict_set=choose_set(run, state, asked),
        profile=read_profile(run),
        identity=state.identity if state else {},
        trust_remote_code=read_settings(run).model.trust_remote_code,
    )


class _Declared(msgspec.Struct):
    severity: dict[str, str] = {}


def _declared(runs: Sequence[RunInput]) -> dict[str, list[str]]:
    """validator -> the reasons that it declares, over all runs; {} where none is told."""
    found: dict[str, list[str]] = {}
    for given in runs:
        path = given.run.verdicts(given.verdict_set) / "validators.json"
        if path.is_file():
            told = msgspec.json.decode(path.read_bytes(), type=dict[str, _Declared])
            for name, one in told.items():
                found.setdefault(name, []).extend(one.severity)
    return found


def _check_single(policy: Policy, runs: Sequence[RunInput]) -> None:
    """Raises ConfigError for a reason that is found over a whole set: no sample carries it."""
    options = (("--drop", policy.drop), ("--keep", policy.keep))
    for given, (option, words) in product(runs, options):
        for word in words:
            if error := whole_set_error(given.run, given.verdict_set, word, option=option):
                raise error


def request_of(arguments: argparse.Namespace, declared: dict[str, list[str]]) -> Request:
    """The options as a request. Raises ConfigError for what cannot be meant."""
    drop, keep = _words(arguments.drop), _words(arguments.keep)
    if declared:
        check_names("--drop", drop, declared)
        check_names("--keep", keep, declared)
    policy = Policy(
        keep=keep,
        drop=drop,
        categories=_words(arguments.category),
        finish=arguments.finish,
        max_length=arguments.max_length,
        over_length=arguments.over_length,
        min_output=arguments.min_output,
        min_scores=parse_scores(arguments.min_score, declared),
        keep_unplanned=arguments.keep_unplanned,
        balance=arguments.balance,
        split=parse_split(arguments.split),
        shuffle=arguments.shuffle,
        seed=arguments.seed,
        part_bytes=arguments.part_mb * 2**20,
    )
    options = Options(
        key=arguments.key, call_reader=arguments.call_reader, draft_size=arguments.draft_size
    )
    return Request(to=arguments.to, policy=policy, options=options)


def _words(values: Sequence[str]) -> list[str]:
    """Values that were given several times, or with commas, or both."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def print_manifest(manifest: Manifest, out: Path, screen: Console) -> None:
    """What was exported and what was not."""
    counts = manifest.counts
    table = new_table(screen, "category", ">exported", ">prompt", ">supervised", ">left out")
    names = sorted({*manifest.categories, *manifest.left_out})
    say_table(screen, fill(table, (_row(manifest, name) for name in names)))
    for name, reasons in manifest.left_out.items():
        for reason, number in reasons.items():
            say(screen, f"left out of {safe_line(name)}: {thousands(number)} {safe_line(reason)}")
    if len(manifest.splits) > 1:
        shares = (f"{name} {thousands(one.samples)}" for name, one in manifest.splits.items())
        say(screen, f"split: {safe_line(', '.join(shares))}")
    for words in manifest.words:
        say(screen, safe_line(words))
    say(
        screen,
        f"samples {thousands(counts.samples)} = exported {thousands(counts.exported)} "
        f"+ left out {thousands(counts.left_out)}",
    )
    say(screen, f"{manifest.format}: {safe_line(str(out))}")


def _row(manifest: Manifest, name: str) -> Sequence[str]:
    exported = manifest.categories.get(name)
    left_out = sum(manifest.left_out.get(name, {}).values())
    return (
        safe_line(name),
        thousands(exported.samples if exported else 0),
        thousands(exported.prompt_tokens if exported else 0),
        thousands(exported.supervised_tokens if exported else 0),
        thousands(left_out),
    )


def _balance(text: str) -> int | str:
    return text if text == "smallest" else at_least(1)(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("run", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--to", choices=list(FORMATS), default="pretokenized", help="default: pretokenized"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="a new folder")
    parser.add_argument("--overwrite", action="store_true", help="replace another export in DIR")
    add_json(parser, "the manifest")
    _add_choice(parser.add_argument_group("which samples"))
    _add_order(parser.add_argument_group("order and files"))
    _add_formats(parser.add_argument_group("settings of single formats"))


def _add_choice(group: argparse._ArgumentGroup) -> None:
    finding = "a severity (flag, info, error, reject), a reason, or VALIDATOR.REASON"
    several = partial(group.add_argument, metavar="WHAT", action="append", default=[])
    several("--drop", help=f"leave samples out that have this finding: {finding}")
    several("--keep", help="a finding that leaves nobody out; stronger than --drop")
    several("--category", help="only these categories")
    several("--min-score", help="VALIDATOR=N: the lowest score; who was not scored stays")
    option = group.add_argument
    option("--finish", choices=["stop", "length"], help="only samples that ended so")
    option("--min-output", metavar="N", type=at_least(1), default=1, help="fewest output tokens")
    option("--max-length", metavar="N", type=at_least(2), help="most tokens, prompt and output")
    longer = "what is longer is left out, or loses the end of its output (default: drop)"
    option("--over-length", choices=["drop", "cut"], default="drop", help=longer)
    balance = "at most N of each category; without N as many as the smallest has"
    option("--balance", metavar="N", type=_balance, nargs="?", const="smallest", help=balance)
    option("--keep-unplanned", action="store_true", help="those too that a smaller plan dropped")
    option("--set", metavar="NAME", help="another verdict set than the run's own")


def _add_order(group: argparse._ArgumentGroup) -> None:
    option = group.add_argument
    split = "by prompt, train=0.98,eval=0.02: all samples of a prompt are on one side"
    option("--split", metavar="NAME=SHARE,...", default="train=1", help=split)
    option("--shuffle", action="store_true", help="a seeded order instead of that of writing")
    option("--seed", metavar="N", type=at_least(0), default=0, help="of shuffle, split, balance")
    size = "about how large a file gets, in MiB (default: 128)"
    option("--part-mb", metavar="N", type=at_least(1), default=128, help=size)


def _add_formats(group: argparse._ArgumentGroup) -> None:
    option, default = group.add_argument, Options()
    key = "messages: what the list of messages is called"
    option("--key", choices=["messages", "conversations"], default=default.key, help=key)
    reader = "messages: the function that reads tool calls out of ids"
    option("--call-reader", metavar="MODULE:NAME", default=default.call_reader, help=reader)
    size = f"vocabulary: how many ids the draft has (default: {default.draft_size:,})"
    option("--draft-size", metavar="N", type=at_least(1), default=default.draft_size, help=size)


COMMAND = Command(
    name="export",
    summary="samples as what trainers read: ids and masks, messages, parquet ...",
    text="""Samples of runs, joined with their verdicts, as what trainers read.

  pretokenized   JSON lines: id, input_ids, loss_mask, metadata
  parquet, hf    the same in columns; hf is for datasets.load_from_disk
  messages       JSON lines: OpenAI messages decoded from the ids, with tools
  sharegpt       JSON lines: EAGLE's human and gpt turns
  vocabulary     token_freq.pt, d2t and t2d, coverage by size and category

Rejected samples are left out; outputs cut by length are kept, and their
metadata says so. Whoever is not exported is named in DIR/left_out.jsonl, with
the reason.
The same command goes on after a kill and does nothing when all is there.
Exit code 1 when not one sample was exported.

  python -m runner.runs export latest --out data
  python -m runner.runs export latest --out data --drop flag --keep loop
  python -m runner.runs export RUN RUN --out data --max-length 8192 \\
      --over-length cut --split train=0.98,eval=0.02 --shuffle
  python -m runner.runs export latest --to vocabulary --out vocab
""",
    add_arguments=add_arguments,
    run=run_export,
)
