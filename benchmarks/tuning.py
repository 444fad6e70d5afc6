"""`hparams_search=throughput` over the simulated server, whose best setting is known.

    .venv-tune/bin/python -m benchmarks.tuning [--trials 12] [--folder DIR] [--grid]

The simulated GPU has a cache for about a hundred requests at mem-fraction-static 0.88 and no more
memory beyond 0.94, so 0.97 fails as it does on a real one. The best point is found by playing all
of them in virtual time, and compared with what the search names. `--folder` keeps the study, so the
same command after a kill goes on.
"""

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.batching import Job, Lengths, Machine, makespan_s
from benchmarks.serving_process import ROOT
from benchmarks.simulated_server import Simulation, parser, tuned
from benchmarks.utilisation import prompt_files

LENGTHS = Lengths(median=40, sigma=0.8, most=600)
MACHINE = Machine(
    slots=256, kv_tokens=2_000, step_s=0.01, per_request_s=0.0002, prefill_token_s=0.00003
)
CONCURRENCY = (8, 32)
MEMORY = (0.6, 0.88, 0.97)
CHUNKS = (1024, 8192)
PROMPT_TOKENS = 22


def best_known() -> dict[str, float]:
    """The setting with the shortest makespan, by trying all of them in virtual time."""
    rng = random.Random(0)
    jobs = [Job(f"B4-{n}-0", PROMPT_TOKENS, LENGTHS.draw(rng)) for n in range(1500)]
    points = {}
    for number, memory, chunk in itertools.product(CONCURRENCY, MEMORY[:-1], CHUNKS):
        words = ["--mem-fraction-static", str(memory), "--chunked-prefill-size", str(chunk)]
        machine = tuned(MACHINE, parser().parse_args(words))
        points[number, memory, chunk] = makespan_s(jobs, machine, in_flight=number)
    number, memory, chunk = min(points, key=lambda point: points[point])
    return {"concurrency": number, "memory": memory, "chunk": chunk}


def command(
    folder: Path, *, grid: bool, trials: int, trial_s: float = 4, python: str = sys.executable
) -> list[str]:
    """The search as a user would start it, with the simulated server in SGLang's place."""
    lengths = {"B4": LENGTHS, "": LENGTHS}
    simulation = msgspec.json.encode(Simulation(machine=MACHINE, lengths=lengths)).decode()
    program = [sys.executable, "-m", "benchmarks.simulated_server", "--simulation", simulation]
    space(folder / "conf", grid=grid, trials=trials)
    return [
        *(python, "-m", "runner", "--config-dir", str(folder / "conf")),
        "experiment=simulated" if grid else "hparams_search=simulated",
        *("server=sglang", "source=file", "tracking=none"),
        f"server.command={quoted(program)}",
        *("canary.count=4", f"tuning.trial_s={trial_s}", "server.ready_timeout_s=60"),
        "category=B4",
        *("sampling.max_new_tokens=700", f"paths.outputs={folder / 'outputs'}"),
        *prompt_files(folder, ["B4"], 4000),
    ]


def space(conf: Path, *, grid: bool, trials: int) -> None:
    """The preset with another space, as a user would write it."""
    base, group = ("tune_grid", "experiment") if grid else ("throughput", "hparams_search")
    form = "{}" if grid else "choice({})"
    values: dict[str, Sequence[float]] = {
        "client.concurrency": CONCURRENCY,
        "+server.flags.mem-fraction-static": MEMORY,
        "+server.flags.chunked-prefill-size": CHUNKS,
    }
    if not grid:
        values["+server.flags.schedule-conservativeness"] = (1.0,)
    lines = [f"      {name}: {form.format(', '.join(map(str, v)))}" for name, v in values.items()]
    study = "${paths.outputs}/.tuning/${task_name}/study.db,${task_name}"
    left = [] if grid else [f"    n_trials: ${{trials_left:{trials},{study}}}"]
    head = f"# @package _global_\ndefaults: [{base}, _self_]\nhydra:\n  sweeper:"
    file = conf / group / "simulated.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([head, *left, "    params:", *lines]) + "\n")


def quoted(words: list[str]) -> str:
    """A list of texts in Hydra's grammar: single quotes keep whatever is inside."""
    return "[" + ",".join("'" + word.replace("'", "\\'") + "'" for word in words) + "]"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--trials", type=int, default=12)
    arguments.add_argument("--grid", action="store_true", help="every combination, without Optuna")
    arguments.add_argument("--folder", type=Path, help="keep it, and go on with what is in it")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "SQLALCHEMY_SILENCE_UBER_WARNING": "1"}
        done = subprocess.run(
            command(folder, grid=given.grid, trials=given.trials), cwd=ROOT, env=env, check=False
        )
        print(f"exit {done.returncode}; the best in truth: {best_known()}")
        for file in sorted((folder / "outputs" / ".tuning").rglob("*.txt")):
            print(file.read_text())


if __name__ == "__main__":
    main()
