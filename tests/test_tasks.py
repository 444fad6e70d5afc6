import asyncio

import pytest

from runner.tasks import first, run_all, run_beside


async def sleeper(events: list[str], name: str, seconds: float, fail: bool = False) -> None:
    try:
        await asyncio.sleep(seconds)
        events.append(f"{name} ended")
        if fail:
            raise RuntimeError(name)
    except asyncio.CancelledError:
        events.append(f"{name} cancelled")
        raise


def test_first_gives_the_first_result_and_cancels_the_rest() -> None:
    events: list[str] = []

    async def answer() -> int:
        return 42

    async def main() -> object:
        return await first(sleeper(events, "slow", 9), answer())

    assert asyncio.run(main()) == 42
    assert events == ["slow cancelled"]


def test_run_all_waits_for_all() -> None:
    events: list[str] = []

    async def main() -> None:
        await run_all([sleeper(events, n, 0.01) for n in "ab"], asyncio.Event())

    asyncio.run(main())
    assert sorted(events) == ["a ended", "b ended"]


def test_run_all_raises_the_first_failure_and_cancels_the_rest() -> None:
    events: list[str] = []

    async def main() -> None:
        await run_all(
            [sleeper(events, "slow", 9), sleeper(events, "bad", 0.01, fail=True)], asyncio.Event()
        )

    with pytest.raises(RuntimeError, match="bad"):
        asyncio.run(main())
    assert events == ["bad ended", "slow cancelled"]


def test_run_all_ends_when_it_is_told_to() -> None:
    events: list[str] = []

    async def main() -> None:
        until = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, until.set)
        await run_all([sleeper(events, "slow", 9)], until)

    asyncio.run(main())
    assert events == ["slow cancelled"]


@pytest.mark.parametrize("limit_s", [9.0, 0.02])
def test_run_beside_ends_with_main_or_with_the_limit(limit_s: float) -> None:
    events: list[str] = []

    async def main() -> None:
        await run_beside(
            sleeper(events, "main", 0.1),
            [sleeper(events, "beside", 9)],
            sleeper(events, "limit", limit_s),
        )

    asyncio.run(main())
    ended = "main" if limit_s > 1 else "limit"
    assert f"{ended} ended" in events
    assert "beside cancelled" in events


def test_run_beside_raises_what_a_background_task_raises() -> None:
    events: list[str] = []

    async def main() -> None:
        await run_beside(
            sleeper(events, "main", 9),
            [sleeper(events, "bad", 0.01, fail=True)],
            sleeper(events, "limit", 9),
        )

    with pytest.raises(RuntimeError, match="bad"):
        asyncio.run(main())
    assert "main cancelled" in events
