"""Trials: short measured runs, each with its own server flags and client settings, and the best.

`tuning.trial_s` makes a run a trial: it ends after so many seconds of its steady window, or sooner
when it is clearly slower than the best so far. What its prompts brought is kept like any other
run's; with `identity: full` each setting is a run of its own. A trial that fails (out of memory, a
server that does not come up, bad answers) is a point without a value, not the end of the search.

    outputs/.tuning/TASK/trials.jsonl              one line a trial; the same one is not run twice
    outputs/.tuning/TASK/advice.txt                a sentence: the best, and how sure that is
    outputs/.tuning/TASK/best/server/tuned.yaml    the best server as a preset, and the experiment
    outputs/.tuning/TASK/best/experiment/tuned.yaml  that chooses it with its client settings
"""

import asyncio
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from runner.config import Config, Tuning
from runner.meter import Meter
from runner.performance import Performance, read_performance
from runner.records import Record
from runner.rundir import RunDir, append_line, replace_file
from runner.tracking.sweep import ADVICE_NAME, SWEEP_DIR_ENV

TRIALS_FILE = "trials.jsonl"
LOOK_S = 0.25
EARLIEST = 4
"""A trial is given up after this part of its time at the earliest,"""
LEAST_ANSWERS = 30
"""and this many answers."""
LONGEST_WARM_UP = 6
"""Times `trial_s` without a steady window: such settings are no use."""
FAILING = (1, 3)
"""Exit codes that make a trial a failed point: our side (the server above all), or its answers."""


class Trial(Record, frozen=True, kw_only=True):
    """One point. `tokens_per_s` None: it failed, for `reason`. `uncertainty` is relative, for nine
    cases of ten."""

    run_id: str
    overrides: list[str]
    tokens_per_s: float | None = None
    uncertainty: float = 0.0
    steady_s: float = 0.0
    reason: str = ""
    at: float = 0.0


def folder_of(config: Config) -> Path:
    """Where the trials of a task are told of."""
    return Path(config.paths.outputs) / ".tuning" / config.task_name


def read_trials(folder: Path) -> list[Trial]:
    """The trials so far, the last line of each run; a torn line is a trial that did not end."""
    path, found = folder / TRIALS_FILE, {}
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            trial = msgspec.json.decode(line, type=Trial)
        except msgspec.DecodeError:
            continue
        found[trial.run_id] = trial
    return list(found.values())


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The fastest one that did not fail."""
    measured = [trial for trial in trials if trial.tokens_per_s is not None]
    return max(measured, key=lambda trial: trial.tokens_per_s or 0.0, default=None)


def run_trial(config: Config, run: RunDir, overrides: list[str], attempt: Callable[[], int]) -> int:
    """Do a trial, or find it done; its exit code. A failed point is no failed command."""
    folder = folder_of(config)
    if point_of(config, run) is not None:
        return 0
    code = attempt()
    state = run.read()
    if code not in (0, *FAILING):  # interrupted, or refused: no point at all
        return code
    performance = read_performance(state.performance) if code == 0 else None
    trial = trial_of(state.run_id, overrides, performance, reason="" if code == 0 else state.reason)
    folder.mkdir(parents=True, exist_ok=True)
    append_line(folder / TRIALS_FILE, trial)
    trials = read_trials(folder)
    told = [folder, *([Path(sweep)] if (sweep := os.environ.get(SWEEP_DIR_ENV)) else [])]
    for place in told:
        replace_file(place / ADVICE_NAME, f"{advice(trials)}\n".encode())
    if best_of(trials) == trial:
        keep_best(folder, config, trial)
    return 0


def point_of(config: Config, run: RunDir) -> Trial | None:
    """What the trial with this run showed; None when it did not end yet."""
    trials = read_trials(folder_of(config))
    return next((t for t in trials if t.run_id == run.path.name), None)


def trial_of(
    run_id: str, overrides: list[str], performance: Performance | None, *, reason: str
) -> Trial:
    """The point that an attempt's figures make."""
    speed = performance.output_tokens_per_s if performance is not None else None
    if performance is None or speed is None:
        reason = reason or "no steady window: tuning.trial_s is too short, or the prompts too few"
        return Trial(run_id=run_id, overrides=overrides, reason=reason, at=time.time())
    answers = (performance.requests_per_s or 0.0) * performance.steady_s
    return Trial(
        run_id=run_id,
        overrides=overrides,
        tokens_per_s=speed,
        uncertainty=uncertainty(answers),
        steady_s=performance.steady_s,
        at=time.time(),
    )


def uncertainty(answers: float) -> float:
    """Relative, for nine cases of ten: answers come at random and their lengths scatter about as
    much as their mean."""
    return 1.645 * math.sqrt(2 / max(1.0, answers))


async def trial_over(meter: Meter, config: Config) -> str:
    """Returns when the trial has shown enough, and says why it ends. Never, when this is none."""
    if config.tuning.trial_s is None:
        await asyncio.Event().wait()
    best = best_of(read_trials(folder_of(config)))
    fastest = best.tokens_per_s if best is not None else None
    while True:
        await asyncio.sleep(LOOK_S)
        if why := shown(meter, config.tuning, fastest, now_s=time.monotonic()):
            return why


def shown(meter: Meter, tuning: Tuning, fastest: float | None, *, now_s: float) -> str:
    """Why a trial needs to go on no longer; "" while it must. `fastest` is the best one's output
    tokens per second."""
    trial_s = tuning.trial_s or math.inf
    if meter.began is None or meter.emptying is not None:
        return ""
    if meter.steady is None:
        late = now_s - meter.began.at_s > LONGEST_WARM_UP * trial_s
        return "no steady window came" if late else ""
    seconds = now_s - meter.steady.at_s
    if seconds >= trial_s:
        return f"measured for {seconds:.0f} s"
    window = meter.totals.minus(meter.steady.totals)
    if seconds < trial_s / EARLIEST or window.answers < LEAST_ANSWERS or not fastest:
        return ""
    at_best = window.output_tokens / seconds * (1 + uncertainty(window.answers))
    if at_best >= tuning.give_up_below * fastest:
        return ""
    return f"given up after {seconds:.0f} s with {at_best:,.0f} output tokens/s at best"


def advice(trials: Sequence[Trial]) -> str:
    """A plain sentence: what is best, and how sure that is."""
    best = best_of(trials)
    failed = [trial for trial in trials if trial.tokens_per_s is None]
    lost = f"{len(failed)} of {len(trials)} trials failed"
    if best is None or best.tokens_per_s is None:
        why = f": {failed[-1].reason.splitlines()[0]}" if failed and failed[-1].reason else ""
        return f"No trial gave a speed ({lost}{why})."
    text = (
        f"Best of {len(trials)} trials: {_named(best, trials)} with {best.tokens_per_s:,.0f} "
        f"output tokens/s, give or take {best.uncertainty:.0%}"
    )
    second = best_of([trial for trial in trials if trial != best])
    if second is not None and second.tokens_per_s is not None:
        behind = 1 - second.tokens_per_s / best.tokens_per_s
        doubt = math.hypot(best.uncertainty, second.uncertainty)
        sure = "clearly" if behind > doubt else "within the uncertainty"
        text += f"; the next, {_named(second, trials)}, is {behind:.0%} slower, {sure}"
    return text + (f"; {lost}." if failed else ".")


def _named(trial: Trial, trials: Sequence[Trial]) -> str:
    shared = set.intersection(*(set(one.overrides) for one in trials))
    own = [text.lstrip("+") for text in trial.overrides if text not in shared]
    return " ".join(own) or "the settings as they are"


def keep_best(folder: Path, config: Config, trial: Trial) -> None:
    """Write the best server as a preset, and an experiment that chooses it."""
    server = config.server
    told = f"# {trial.tokens_per_s or 0:,.0f} output tokens/s in {trial.run_id}\n"
    flags = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in server.flags.items())
    preset = f"{told}defaults:\n  - {server.name}\n  - _self_\nname: tuned\n"
    preset += f"flags:\n{flags}" if flags else ""
    chosen = (
        f"# @package _global_\n{told}defaults:\n  - override /server: tuned\n"
        f"client:\n  concurrency: {config.client.concurrency}\n"
    )
    replace_file(folder / "best" / "server" / "tuned.yaml", preset.encode())
    replace_file(folder / "best" / "experiment" / "tuned.yaml", chosen.encode())


def end_tuning(folder: Path, say: Callable[[str], object]) -> list[int]:
    """Tell what the trials showed; [1] when not one gave a speed, else [0]."""
    trials = read_trials(folder)
    say(f"\n{advice(trials)}")
    if best_of(trials) is None:
        return [1]
    say(f"the best as a preset: --config-dir {folder / 'best'} experiment=tuned")
    return [0]
