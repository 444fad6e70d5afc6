"""`client.concurrency: auto` beside the best fixed number over real sockets, the whole runner each.

    python -m benchmarks.auto_sockets [--prompts 1500] [--numbers 32,64,128]

`benchmarks.auto` finds the same in virtual time, where thousands of requests and many more machines
cost nothing; this is the proof that the real program does what was found there. Each line is a
`python -m runner` over a fresh simulated server (real HTTP on loopback), whose signals come three
looks late and wrong by up to a tenth. The makespan is the server's: from the first arrival to the
last answer. "To best" is 1.00 for the best fixed number; `auto`'s start is inside its own, and a
look every tenth of a second makes up for a run of seconds instead of hours. It needs a quiet
machine: where client and server wait for a processor, looks of a tenth of a second see that only.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.batching import Lengths, Machine
from benchmarks.serving_process import Measured, simulated
from benchmarks.simulated_server import Change, Simulation
from benchmarks.utilisation import prompt_files, run_runner

LENGTHS = Lengths(median=35, sigma=0.8, most=1200)


class Case(NamedTuple):
    """A machine, what it becomes after a third of the answers, and how long the run is, in times
    `--prompts`: to follow a change costs the same seconds in a short run as in a long one."""

    machine: Machine
    later: dict[str, int] = {}
    times: int = 1


MACHINES = {
    "32 slots": Case(Machine(slots=32)),
    "a cache for about 35": Case(
        Machine(slots=1000, kv_tokens=9_000, prefill_token_s=0.00005),
    ),
    "32 slots, then 96": Case(Machine(slots=32), {"slots": 96}, times=2),
}
INTERVAL_S = 0.1
AUTO = (f"client.auto.interval_s={INTERVAL_S}",)
MORE = " Think of the tide, the harbour and the boats that wait for it." * 6
"""Prompts of some 150 tokens: to prefill one again is not for nothing."""


def measured(simulation: Simulation, prompts: int, number: int | str) -> Measured:
    """One run over a fresh server."""
    with tempfile.TemporaryDirectory() as name, simulated(simulation) as server:
        folder = Path(name)
        overrides = ["category=B4", *prompt_files(folder, ["B4"], prompts, more=MORE), *AUTO]
        run_runner(server.url, overrides, folder / "outputs", number)
        return server.measured()


def compare(machine: str, prompts: int, numbers: Sequence[int]) -> None:
    """Print a line for each fixed number and one for `auto`."""
    case = MACHINES[machine]
    prompts *= case.times
    simulation = Simulation(
        machine=case.machine,
        changes=[Change(after=prompts // 3, machine=case.later)] if case.later else [],
        lengths={"B4": LENGTHS},
        load_delay_s=3 * INTERVAL_S,
        load_noise=0.1,
    )
    found = {number: measured(simulation, prompts, number) for number in (*numbers, "auto")}
    best_s = min(found[number].makespan_s for number in numbers)
    for number, one in found.items():
        print(
            f"{machine:<22}{number:>9}{one.makespan_s:>12.1f}{one.makespan_s / best_s:>9.3f}"
            f"{one.mean_running:>9.1f}{one.retractions / prompts:>8.3f}",
            flush=True,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--prompts", type=int, default=1500)
    arguments.add_argument("--numbers", default="32,64,128")
    arguments.add_argument("--machines", nargs="*", choices=list(MACHINES), default=list(MACHINES))
    given = arguments.parse_args()
    numbers = [int(number) for number in given.numbers.split(",")]
    head = f"{'machine':<22}{'in flight':>9}{'makespan s':>12}{'to best':>9}{'running':>9}"
    print(f"{head}{'retr.':>8}")
    for machine in given.machines:
        compare(machine, given.prompts, numbers)


if __name__ == "__main__":
    main()
