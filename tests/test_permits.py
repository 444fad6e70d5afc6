"""Permits: never more out than the number, whatever it does meanwhile; nobody waits for ever."""

import asyncio
import random

import pytest

from runner.permits import Permits


async def hold(permits: Permits, out: list[int], seen: list[int], rounds: int) -> None:
    for _ in range(rounds):
        async with permits:
            out[0] += 1
            seen.append(out[0])
            await asyncio.sleep(0)
            out[0] -= 1


def most_seen(permits: Permits, tasks: int) -> int:
    out, seen = [0], []

    async def all_of_them() -> None:
        await asyncio.gather(*(hold(permits, out, seen, 5) for _ in range(tasks)))

    asyncio.run(all_of_them())
    assert len(seen) == 5 * tasks
    return max(seen)


@pytest.mark.parametrize("number", [1, 3, 10])
def test_never_more_than_the_number_are_out_and_all_are_used(number: int) -> None:
    assert most_seen(Permits(number, most=20), 20) == number


def test_a_number_is_kept_between_1_and_most() -> None:
    permits = Permits(4, most=8)
    permits.set(100)
    assert permits.number == 8
    permits.set(0)
    assert permits.number == 1


def test_without_most_the_number_is_the_most() -> None:
    assert Permits(4).most == 4


def test_a_larger_number_wakes_those_that_wait() -> None:
    async def work() -> int:
        permits, inside = Permits(1, most=3), 0
        release = asyncio.Event()

        async def one() -> None:
            nonlocal inside
            async with permits:
                inside += 1
                await release.wait()

        tasks = [asyncio.ensure_future(one()) for _ in range(3)]
        await asyncio.sleep(0)
        assert inside == 1
        permits.set(3)
        await asyncio.sleep(0)
        found = inside
        release.set()
        await asyncio.gather(*tasks)
        return found

    assert asyncio.run(work()) == 3


def test_a_smaller_number_lets_those_out_finish_and_gives_no_more() -> None:
    async def work() -> list[int]:
        permits, seen = Permits(4, most=4), []
        release = asyncio.Event()
        inside = 0

        async def one() -> None:
            nonlocal inside
            async with permits:
                inside += 1
                seen.append(inside)
                await release.wait()
                await asyncio.sleep(0)
                inside -= 1

        tasks = [asyncio.ensure_future(one()) for _ in range(8)]
        await asyncio.sleep(0)
        permits.set(1)
        release.set()
        await asyncio.gather(*tasks)
        return seen

    seen = asyncio.run(work())
    assert seen[:4] == [1, 2, 3, 4]
    assert max(seen[4:]) <= 1 + 3  # those that were out
    assert seen[-1] == 1


@pytest.mark.parametrize("seed", range(5))
def test_cancelled_waiters_lose_no_permit(seed: int) -> None:
    rng = random.Random(seed)

    async def work() -> None:
        permits = Permits(2, most=2)

        async def one() -> None:
            async with permits:
                await asyncio.sleep(0)

        tasks = [asyncio.ensure_future(one()) for _ in range(30)]
        for _ in range(10):
            await asyncio.sleep(0)
            rng.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with permits, permits:  # both are there
            pass

    asyncio.run(asyncio.wait_for(work(), 20))
