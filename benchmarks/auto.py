"""`client.concurrency: auto` beside the best fixed number, found by trying many; in virtual time.

    python -m benchmarks.auto [--prompts 6000]

Each line is a machine (benchmarks.batching) whose signals come three looks late and wrong by up to
a tenth. "To best" is auto's makespan divided by that of the best fixed number: 1.10 is the promise,
start included. Retractions are per request, beside those of everything sent at once. Always the
same figures: no clock is involved.
"""

import argparse
import random
from collections.abc import Callable

import msgspec

from benchmarks.batching import Batching, Job, Lengths, Machine, copies
from benchmarks.closed_loop import best_fixed, follow
from runner.pacing import Pacing

INTERVAL_S = 0.25
SLOW_PREFILL_S = 0.00005
MACHINES = {
    "32 slots": Machine(slots=32),
    "200 slots": Machine(slots=200),
    "a cache for about 110": Machine(slots=1000, prefill_token_s=SLOW_PREFILL_S, kv_tokens=30_000),
    "a cache for about 35": Machine(slots=1000, prefill_token_s=SLOW_PREFILL_S, kv_tokens=9_000),
    "a cautious scheduler": Machine(
        slots=1000, prefill_token_s=SLOW_PREFILL_S, kv_tokens=30_000, headroom=40
    ),
    "slow beyond 64": Machine(slots=1000, graph_slots=64),
}
NUMBERS = (16, 32, 40, 64, 96, 128, 256)
CHANGES: dict[str, tuple[str, dict[str, int]]] = {
    "32 slots, then 160": ("32 slots", {"slots": 160}),
    "200 slots, then 32": ("200 slots", {"slots": 32}),
    "a small cache, then a large one": ("a cache for about 35", {"kv_tokens": 30_000}),
    "a large cache, then a small one": ("a cache for about 110", {"kv_tokens": 9_000}),
}
CHANGE_AFTER = 2500
"""Answers."""


def jobs(count: int, *, median: float = 60, prompt_tokens: int = 150, seed: int = 1) -> list[Job]:
    """Requests with a heavy tail of lengths."""
    rng, lengths = random.Random(seed), Lengths(median=median, sigma=0.9, most=3000)
    return [Job(f"B4-{i}-0", prompt_tokens, lengths.draw(rng)) for i in range(count)]


def after(finished: int, **fields: object) -> Callable[[], Callable[[Batching], None]]:
    """Makes changes of a machine: other fields once so many jobs are finished."""

    def make() -> Callable[[Batching], None]:
        def change(batching: Batching) -> None:
            if batching.finished >= finished:
                batching.machine = msgspec.structs.replace(batching.machine, **fields)

        return change

    return make


def all_at_once(work: list[Job], machine: Machine) -> int:
    """Retractions when everything waits at the server from the start."""
    batching = Batching(machine)
    for job in copies(work):
        batching.add(job)
    while not batching.idle:
        batching.step()
    return batching.retractions


def line(name: str, machine: Machine, work: list[Job], change) -> str:
    best, seconds = best_fixed(work, machine, NUMBERS, change)
    late = {"delay_s": 3 * INTERVAL_S, "noise": 0.1}
    found = follow(work, machine, first=Pacing(), interval_s=INTERVAL_S, change=change(), **late)
    storm = all_at_once(work, machine) / len(work)
    numbers = sorted(number for _, number, _ in found.numbers[len(found.numbers) // 2 :])
    return (
        f"{name:<34}{best:>6}{numbers[len(numbers) // 2]:>6}{found.makespan_s / seconds:>9.3f}"
        f"{found.retractions / len(work):>8.3f}{storm:>8.3f}"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--prompts", type=int, default=6000)
    work = jobs(arguments.parse_args().prompts)
    print(f"{'machine':<34}{'best':>6}{'auto':>6}{'to best':>9}{'retr.':>8}{'at once':>8}")
    for name, machine in MACHINES.items():
        print(line(name, machine, work, after(1 << 60)), flush=True)
    for name, (machine, fields) in CHANGES.items():
        print(line(name, MACHINES[machine], work, after(CHANGE_AFTER, **fields)), flush=True)


if __name__ == "__main__":
    main()
