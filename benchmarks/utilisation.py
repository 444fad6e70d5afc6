"""How full the clients keep one and the same simulated server: the runner beside what people write.

    python -m benchmarks.utilisation [--prompts 4000] [--slots 32] [--scale 0.6] [--json FILE]

Each client gets a fresh `benchmarks.simulated_server` and the same samples in the same order (the
runner's). The figure is its makespan, measured by the server from the first arrival to the last
answer, and the share of what list scheduling in arrival order would reach: the same machine with
all jobs there at once. The runner is the whole `python -m runner`: canary, rendering, checks,
verdicts and shards included; the others have everything rendered beforehand and keep nothing. The
client with a barrier gets the first twentieth only, since it takes so long.

Two mixes: one category, whose lengths nobody can tell apart, and eight whose means are known.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.batching import Lengths, Machine, makespan_s
from benchmarks.clients import Asked, bare_loop, batches, thread_pool
from benchmarks.serving_process import ROOT, Measured, Remote, simulated
from benchmarks.simulated_server import Simulation

QUEUED_SHARE = 0.25
"""Requests in flight beyond the slots, for every client alike."""
MIXES: dict[str, dict[str, Lengths]] = {
    "one category": {"B4": Lengths(median=35, sigma=1.1, most=1200)},
    "eight categories": {
        f"B{number}": Lengths(median=median, sigma=0.5, most=1200)
        for number, median in enumerate((10, 14, 20, 28, 40, 56, 80, 400), 1)
    },
}


class Result(NamedTuple):
    """One client on one mix."""

    client: str
    prompts: int
    makespan_s: float
    share_of_bound: float


def prompt_files(folder: Path, parts: Sequence[str], rows: int, *, more: str = "") -> list[str]:
    """A file of prompts for each part, `more` at their ends; gives the overrides that make the
    runner read them."""
    overrides = []
    for part in parts:
        file = folder / f"{part}.jsonl"
        texts = (
            f"What is {n} plus {len(part)} in {part}?{more}" for n in range(rows // len(parts))
        )
        lines = ({"messages": [{"role": "user", "content": text}]} for text in texts)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        overrides.append(f"category.parts.{part}.file={{path: {file}}}")
    return overrides


def run_runner(
    url: str, overrides: Sequence[str], outputs: Path, in_flight: int | str, *more: str
) -> None:
    """The whole program over a server that is there."""
    command = [
        sys.executable, "-m", "runner", "server=external", f"server.urls=[{url}]", "tracking=none",
        "source=file", "sampling.max_new_tokens=1500", f"client.concurrency={in_flight}",
        f"paths.outputs={outputs}", *overrides, *more,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the runner ended with {done.returncode}\n{done.stdout}{done.stderr}")


def result_of(client: str, measured: Measured, machine: Machine) -> Result:
    bound = makespan_s(measured.arrivals(), machine)
    return Result(client, len(measured.jobs), measured.makespan_s, bound / measured.makespan_s)


def against(
    simulation: Simulation, client: str, work: Callable[[Remote], None]
) -> tuple[Result, Measured]:
    """One client against a fresh server."""
    with simulated(simulation) as server:
        work(server)
        measured = server.measured()
    return result_of(client, measured, simulation.machine), measured


def compare(mix: str, prompts: int, machine: Machine, folder: Path) -> list[Result]:
    """All clients on one mix, the runner first: it decides the order."""
    lengths, in_flight = MIXES[mix], round(machine.slots * (1 + QUEUED_SHARE))
    simulation = Simulation(machine=machine, lengths=lengths)
    category = "all" if len(lengths) > 1 else next(iter(lengths))
    overrides = [f"category={category}", *prompt_files(folder, list(lengths), prompts)]
    overrides += [expected(name, one) for name, one in lengths.items()]

    def runner(server: Remote) -> None:
        run_runner(server.url, overrides, folder / "outputs", in_flight)

    ours, measured = against(simulation, "runner", runner)
    asked = in_plan_order(measured, folder / "outputs")
    few = asked[: max(in_flight * 4, len(asked) // 20)]
    others: list[tuple[str, Callable[[Remote], None]]] = [
        ("bare aiohttp loop", lambda s: asyncio.run(bare_loop(s.url, asked, in_flight))),
        ("fixed thread pool", lambda s: thread_pool(s.url, asked, in_flight)),
        ("barrier per batch", lambda s: asyncio.run(batches(s.url, few, in_flight))),
    ]
    return [ours, *(against(simulation, name, work)[0] for name, work in others)]


def expected(part: str, lengths: Lengths) -> str:
    """What a user would write down of this part: about its median."""
    return f"category.parts.{part}.expected.output_tokens={round(lengths.median)}"


def in_plan_order(measured: Measured, outputs: Path) -> list[Asked]:
    """The runner's samples in the order of its plan, which is what its user would feed others."""
    from runner.ledger import read_plan
    from runner.rundir import find_runs

    sizes = {rid.rpartition(".")[0]: prompt for rid, prompt, _ in measured.jobs}
    plan = read_plan(find_runs(outputs)[0])
    return [Asked(f"{p.sample_id}.x", [40] * sizes[p.sample_id]) for p in plan]


def table(mix: str, results: Sequence[Result]) -> str:
    """For a person."""
    bare = next(r for r in results if r.client.startswith("bare"))
    lines = [
        f"{mix}",
        f"{'client':<20}{'prompts':>8}{'makespan s':>12}{'of bound':>10}{'to bare':>9}",
    ]
    for r in results:
        ratio = f"{r.makespan_s / bare.makespan_s:.3f}" if r.prompts == bare.prompts else "-"
        lines.append(
            f"{r.client:<20}{r.prompts:>8,}{r.makespan_s:>12.1f}{r.share_of_bound:>10.3f}{ratio:>9}"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--prompts", type=int, default=4000)
    arguments.add_argument("--slots", type=int, default=32)
    arguments.add_argument("--scale", type=float, default=0.6, help="of the machine's times")
    arguments.add_argument("--json", type=Path, help="write the figures there too")
    given = arguments.parse_args()
    base = Machine(slots=given.slots)
    machine = Machine(
        slots=given.slots,
        step_s=base.step_s * given.scale,
        per_request_s=base.per_request_s * given.scale,
        prefill_token_s=base.prefill_token_s * given.scale,
    )
    found: dict[str, list[dict[str, object]]] = {}
    for mix in MIXES:
        with tempfile.TemporaryDirectory() as folder:
            results = compare(mix, given.prompts, machine, Path(folder))
        print(table(mix, results), flush=True)
        found[mix] = [r._asdict() for r in results]
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
