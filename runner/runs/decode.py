"""`decode`: samples as text, and whether each is whole."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console

from runner.errors import ConfigError
from runner.ledger import read_failures, read_plan, sample_keying
from runner.records import Judgement, PlannedSample, Sample
from runner.rundir import RunDir
from runner.runs.command import Command, add_json, add_run, at_least
from runner.runs.opening import open_run
from runner.runs.sample_print import Look, print_sample
from runner.runs.screen import say, say_json
from runner.shards import ShardReader
from runner.view.escape import safe, safe_line
from runner.view.findings import whole_set_error
from runner.view.picks import (
    DEFAULT_ASKS,
    Ask,
    Candidate,
    Pick,
    Selection,
    choose,
)
from runner.view.reading import judgement_of, load_decoder, read_candidates, read_profile
from runner.view.sample_view import SampleView, Stretch, view_of
from runner.view.status import choose_set, read_state

UNKNOWN = "the plan has no such id"
"""Why a sample is missing that can never come: the id is wrong."""


def run_decode(arguments: argparse.Namespace, screen: Console) -> int:
    """The command. Exit 1 when a sample that was named is not there yet or failed, 2 when there
    can be none of that name."""
    run = open_run(arguments.run, arguments.outputs)
    state = read_state(run)
    verdict_set = choose_set(run, state, arguments.set)
    asks: Sequence[Ask] = arguments.asks or DEFAULT_ASKS
    selections = [
        Selection(ask, seed=arguments.seed, limit=arguments.limit, ids=_ids_of(ask, run))
        for ask in asks
    ]
    named = all(ask.kind in ("id", "row") for ask in asks)
    seen = _Seen(() if named else read_candidates(run, verdict_set))
    picks = choose(selections, seen, category=arguments.category)
    if not named and arguments.category and arguments.category not in seen.categories:
        raise _unknown_category(arguments.category, seen)
    empty = [str(one.ask.value) for one in selections if one.ask.kind == "reason" and one.is_empty]
    errors = [whole_set_error(run, verdict_set, reason) for reason in empty]
    notes = [note for selection in selections if (note := selection.left_out)]
    if not picks:
        raise next(filter(None, errors), None) or _nothing(run, notes, seen if empty else None)
    exit_code = show_picks(picks, run, verdict_set, arguments, screen)
    if not arguments.json:
        for note in notes:
            say(screen, (safe_line(note), "dim"))
        for error in filter(None, errors):
            say(screen, (safe(str(error)), "dim"))
    return exit_code


class _Seen:
    """Lets the candidates pass once, and counts what they have."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._candidates = candidates
        self.categories: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Candidate]:
        for candidate in self._candidates:
            self.categories[candidate.category] += 1
            self.reasons.update(candidate.reasons)
            yield candidate


def _named(counted: Counter[str]) -> str:
    return ", ".join(f"{name} ({n:,})" for name, n in counted.most_common()) or "none"


def _unknown_category(category: str, seen: _Seen) -> ConfigError:
    return ConfigError(
        "No sample is of this category.",
        where="--category",
        found=category,
        allowed=_named(seen.categories),
    )


def show_picks(
    picks: Sequence[Pick],
    run: RunDir,
    verdict_set: str,
    arguments: argparse.Namespace,
    screen: Console,
) -> int:
    """Show each. 1 where one is not in the shards, 2 where the plan does not even know it."""
    profile, decoder = read_profile(run), load_decoder(run)
    samples = ShardReader(run.samples, keying=sample_keying)
    verdicts = ShardReader(run.verdicts(verdict_set), keying=sample_keying)
    chars = 0 if arguments.full else arguments.chars
    look = Look(chars=chars, prompt=not arguments.no_prompt, ids=arguments.ids)
    exit_code = 0
    for pick in picks:
        line, judged = samples.get(pick.sample_id), verdicts.get(pick.sample_id)
        if line is None:
            why = why_missing(pick.sample_id, run)
            exit_code = max(exit_code, 2 if why == UNKNOWN else 1)
            _say_missing(pick, why, arguments, screen)
            continue
        view = view_of(msgspec.json.decode(line, type=Sample), profile, decoder)
        judgement = judgement_of(view.sample, judged)
        if arguments.json:
            say_json(screen, as_json(view, pick, judgement, prompt=look.prompt))
        else:
            print_sample(screen, view, pick=pick, judgement=judgement, look=look)
    return exit_code


def _ids_of(ask: Ask, run: RunDir) -> Iterable[str]:
    """The ids that `--id` and `--row` mean; a row may have several samples."""
    if ask.kind == "id":
        return [str(ask.value)]
    if ask.kind == "row":
        return [one.sample_id for one in read_plan(run) if one.row == ask.value]
    return ()


def _nothing(run: RunDir, notes: list[str], seen: _Seen | None) -> ConfigError:
    """`seen` where a reason was asked for that nobody has."""
    return ConfigError(
        "There is no sample to show.",
        where=str(run.path),
        found="; ".join(notes) or "nothing",
        allowed=f"reasons of this set: {_named(seen.reasons)}" if seen else "",
        next_step="python -m runner.runs show tells how many samples there are and why they failed",
    )


def _say_missing(pick: Pick, why: str, arguments: argparse.Namespace, screen: Console) -> None:
    if arguments.json:
        say_json(screen, {"sample_id": pick.sample_id, "why": pick.why, "missing": why})
    else:
        say(screen, (safe_line(pick.sample_id), "bold"), f"  no sample: {safe_line(why)}")
        say(screen, "")


def why_missing(sample_id: str, run: RunDir) -> str:
    """Why an id is not in the shards: skipped, failed, still owed, or never planned."""
    planned: PlannedSample | None = next(
        (one for one in read_plan(run) if one.sample_id == sample_id), None
    )
    if planned is None:
        return UNKNOWN
    if planned.skip:
        return f"skipped, {planned.skip}"
    failure = read_failures(run).get(sample_id)
    if failure is None:
        return "not generated yet"
    return f"failed after {failure.requests} requests, {failure.reason}: {failure.detail}"


def as_json(
    view: SampleView, pick: Pick, judgement: Judgement | None, *, prompt: bool
) -> dict[str, Any]:
    """Everything about a sample, exactly: nothing is escaped or clipped."""
    return {
        "sample_id": view.sample.sample_id,
        "why": list(pick.why),
        "cut": view.ending.cut,
        "ending": view.ending.text,
        "tokens": {"prompt": len(view.sample.input_ids), **view.lengths._asdict()},
        "prompt": [_plain(one) for one in view.prompt] if prompt else [],
        "output": [_plain(one) for one in view.output],
        "judgement": msgspec.to_builtins(judgement),
        "sample": msgspec.to_builtins(view.sample),
    }


def _plain(one: Stretch) -> dict[str, Any]:
    return {"kind": one.kind.value, "start": one.start, "end": one.end, "text": one.text}


class _AddAsk(argparse.Action):
    """Keep selections in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        namespace.asks = [*namespace.asks, Ask(self.dest, values)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.set_defaults(asks=[])
    _add_selections(parser.add_argument_group("what to show (they add up, in this order)"))
    narrow = parser.add_argument_group("narrowing")
    narrow.add_argument("--category", metavar="C", default="", help="choose in one category only")
    narrow.add_argument("--seed", type=int, default=0, help="other random samples (default 0)")
    narrow.add_argument(
        "--limit",
        metavar="N",
        type=at_least(0),
        default=10,
        help="at most N for each --reason and --finish (default 10; 0 = all)",
    )
    narrow.add_argument(
        "--set", metavar="NAME", help="the verdict set to read (default: the run's)"
    )
    _add_looks(parser.add_argument_group("how to show it"))


def _add_selections(group: argparse._ArgumentGroup) -> None:
    def option(name: str, metavar: str, text: str, **more: Any) -> None:
        group.add_argument(
            f"--{name}",
            metavar=metavar,
            action=_AddAsk,
            help=text,
            default=argparse.SUPPRESS,
            **more,
        )

    option("id", "ID", "the sample with this id")
    option("row", "N", "all samples of this row of the prompt file", type=at_least(0))
    option("longest", "N", "the N with the most output tokens", type=at_least(1))
    option("shortest", "N", "the N with the fewest output tokens", type=at_least(1))
    option("random", "N", "N at random; the same ones each time", type=at_least(1))
    option("reason", "R", "those that a check failed for this reason, as `show` lists them")
    option(
        "finish",
        "stop|length",
        "those that ended by themselves, or were cut",
        choices=("stop", "length"),
    )


def _add_looks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--chars",
        metavar="N",
        type=at_least(20),
        default=800,
        help="characters of each stretch, head and tail (default 800)",
    )
    group.add_argument("--full", action="store_true", help="all of the text, nothing left out")
    group.add_argument("--ids", action="store_true", help="the ids under each text")
    group.add_argument("--no-prompt", action="store_true", help="the output only")
    add_json(group, "one line of JSON for each sample, with exact ids and text")


COMMAND = Command(
    name="decode",
    summary="read samples as text: is this one cut short?",
    text="""Samples as text, from the exact ids: prompt, reasoning, answer and tool calls
apart.

`ended` answers whether a sample is whole: `stop on id 7 <|im_end|>` is the
model's own end, `CUT at 768 tokens: length` is max_new_tokens. Without a
selection: the 2 shortest, the 2 longest, 2 random. Control characters are
shown as escapes (\\x1b); --json has everything exactly.

  python -m runner.runs decode latest
  python -m runner.runs decode latest --row 9539 --full
  python -m runner.runs decode latest --category B4 --longest 1 --no-prompt
  python -m runner.runs decode latest --reason no_close --json | jq -r .ending
""",
    add_arguments=add_arguments,
    run=run_decode,
)
