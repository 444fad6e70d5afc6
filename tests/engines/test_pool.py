"""The pool over real sockets: endpoints die, come back, and share the work."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runner.engines.balance import FIRST_PAUSE_S, LONGEST_PAUSE_S, SET_ASIDE_AFTER
from runner.engines.base import FaultKind
from runner.engines.opening import open_engine
from runner.engines.pool import EnginePool, open_pool
from runner.errors import ConfigError
from tests.engines.fake_answers import Fault, Scenario
from tests.engines.samples import PROMPT, SAMPLING, At, fault_of, run
from tests.fake_sglang import FakeSglang


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def with_pool(use: Callable[..., Coroutine[Any, Any, Any]], *scenarios: Scenario) -> Any:
    """Run `use(pool, fakes, clock)` with one fake for each scenario."""

    async def opened() -> Any:
        async with contextlib.AsyncExitStack() as stack:
            fakes = [await stack.enter_async_context(FakeSglang(s)) for s in scenarios]
            clock = Clock()
            engines = {
                fake.url: open_engine("sglang", fake, vocab_size=1024, max_connections=32)
                for fake in fakes
            }
            pool = EnginePool(engines, clock=clock)
            try:
                return await use(pool, fakes, clock)
            finally:
                await pool.close()

    return run(opened())


async def send_all(pool: EnginePool, count: int, *, start: int = 0) -> list[Any]:
    """`count` requests with prompts of their own, all at once; faults come back as values."""
    asked = [pool.send(f"B1-{i}-0", [40, i], SAMPLING) for i in range(start, start + count)]
    return await asyncio.gather(*asked, return_exceptions=True)


async def settle(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def in_use(pool: EnginePool) -> list[bool]:
    return [stats.in_use for stats in pool.stats()]


def test_an_answer_says_where_it_came_from():
    async def use(pool, fakes, _):
        routed = await pool.send("B1-0-0", PROMPT, SAMPLING)
        return routed, [fake.url for fake in fakes]

    routed, urls = with_pool(use, Scenario(), Scenario())
    assert routed.endpoint in urls
    assert routed.completion.rid == "B1-0-0"


def test_generate_is_that_of_an_engine():
    completion = with_pool(lambda p, *_: p.generate("r", PROMPT, SAMPLING), Scenario())
    assert completion.rid == "r"


def test_work_is_shared():
    async def use(pool, fakes, _):
        await send_all(pool, 120)
        return [fake.stats["requests"] for fake in fakes]

    counts = with_pool(use, Scenario(latency_s=0.02), Scenario(latency_s=0.02))
    assert sum(counts) == 120
    assert min(counts) > 40


def test_a_slow_endpoint_gets_less():
    async def use(pool, fakes, _):
        gate = asyncio.Semaphore(16)

        async def one(i):
            async with gate:
                await pool.send(f"B1-{i}-0", [40, i], SAMPLING)

        await asyncio.gather(*(one(i) for i in range(200)))
        return [fake.stats["requests"] for fake in fakes]

    fast, slow = with_pool(use, Scenario(latency_s=0.005), Scenario(latency_s=0.15))
    assert fast > slow


def test_samples_of_one_row_go_to_one_endpoint():
    async def use(pool, *_):
        asked = [pool.send(f"B1-3-{k}", PROMPT, SAMPLING) for k in range(4)]
        return {routed.endpoint for routed in await asyncio.gather(*asked)}

    assert len(with_pool(use, *[Scenario(latency_s=0.05)] * 3)) == 1


def test_a_fault_names_its_endpoint():
    async def use(pool, fakes, _):
        fault = await fault_of(pool.send("r", PROMPT, SAMPLING))
        return fault.endpoint, fakes[0].url

    endpoint, url = with_pool(use, Scenario(faults=[Fault("abort_200")]))
    assert endpoint == url


def test_a_dead_endpoint_is_set_aside_and_the_others_do_its_work():
    async def use(pool, fakes, _):
        await fakes[0].kill()
        await send_all(pool, 40)
        before = pool.stats()[0].sent
        late = await send_all(pool, 40, start=100)
        return in_use(pool), pool.stats()[0].sent - before, late

    used, sent_to_the_dead, late = with_pool(use, Scenario(), Scenario())
    assert used == [False, True]
    assert sent_to_the_dead == 0
    assert not [answer for answer in late if isinstance(answer, Exception)]


def test_a_gone_endpoint_comes_back():
    async def use(pool, fakes, clock):
        await fakes[0].kill()
        await send_all(pool, 40)
        await fakes[0].revive()
        clock.now += FIRST_PAUSE_S
        await send_all(pool, 1)
        await settle(lambda: in_use(pool)[0])
        await send_all(pool, 40)
        return pool.stats()[0]

    stats = with_pool(use, Scenario(), Scenario())
    assert stats.answered > 0
    assert stats.set_aside == 1
    assert stats.faults["connect_failed"] >= SET_ASIDE_AFTER


def test_a_gone_endpoint_is_left_alone_before_its_pause_is_over():
    async def use(pool, fakes, clock):
        await fakes[0].kill()
        await send_all(pool, 40)
        await fakes[0].revive()
        clock.now += FIRST_PAUSE_S / 2
        await send_all(pool, 10)
        return fakes[0].stats["health"]

    assert with_pool(use, Scenario(), Scenario()) == 0


def test_one_that_is_still_starting_is_not_taken_back():
    async def use(pool, fakes, clock):
        fakes[0].faults = [Fault("busy")]
        await send_all(pool, 40)
        clock.now += FIRST_PAUSE_S
        await send_all(pool, 1)
        await settle(lambda: fakes[0].stats["health"] == 1)
        await send_all(pool, 10)
        return in_use(pool)

    assert with_pool(use, Scenario(ready_after_s=60.0), Scenario()) == [False, True]


def test_with_all_set_aside_it_says_so_at_once_and_recovers():
    async def use(pool, fakes, clock):
        await fakes[0].kill()
        await send_all(pool, SET_ASIDE_AFTER)
        fault = await fault_of(pool.send("r", PROMPT, SAMPLING))
        await fakes[0].revive()
        clock.now += LONGEST_PAUSE_S
        await fault_of(pool.send("r", PROMPT, SAMPLING))
        await settle(lambda: in_use(pool)[0])
        return fault, await pool.generate("r", PROMPT, SAMPLING)

    fault, completion = with_pool(use, Scenario())
    assert (fault.kind, fault.reason) == (FaultKind.UNREACHABLE, "all_set_aside")
    assert completion.finish == "stop"


def test_nothing_stays_outstanding():
    async def use(pool, *_):
        await send_all(pool, 60)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.send("x", [1], SAMPLING), 0.02)
        return pool.stats()

    faults = [
        Fault("abort_200", rate=0.3),
        Fault("missing_meta", rate=0.2),
        Fault("hang", first=61),
    ]
    (stats,) = with_pool(use, Scenario(faults=faults, latency_s=0.01))
    assert stats.outstanding == 0
    assert stats.sent == 61
    assert stats.answered + sum(stats.faults.values()) == 60


def test_info_and_load_are_those_of_all():
    async def use(pool, *_):
        return await pool.info(), await pool.load(), await pool.healthy(), pool.kind

    info, load, healthy, kind = with_pool(
        use, Scenario(context_length=4096), Scenario(context_length=2048)
    )
    assert (info.context_length, info.max_running) == (2048, 8192)
    assert (load.running, load.queued) == (0, 0)
    assert (healthy, kind) == (True, "sglang")


def test_load_of_those_that_answer():
    async def use(pool, fakes, _):
        await fakes[0].kill()
        return await pool.load(), await pool.healthy()

    load, healthy = with_pool(use, Scenario(), Scenario())
    assert load.running == 0
    assert healthy


def test_a_pool_over_a_dead_server_is_not_healthy():
    async def use(pool, fakes, _):
        await fakes[0].kill()
        return await pool.load(), await pool.healthy()

    assert with_pool(use, Scenario()) == (None, False)


def test_closing_ends_a_probe_that_hangs():
    async def use(pool, fakes, clock):
        await fakes[0].kill()
        await send_all(pool, SET_ASIDE_AFTER)
        with socket.create_server(("127.0.0.1", fakes[0].port)):  # takes calls, never answers
            clock.now += FIRST_PAUSE_S
            await fault_of(pool.send("r", PROMPT, SAMPLING))
            await asyncio.sleep(0.05)
            await pool.close()

    with_pool(use, Scenario())


@pytest.mark.parametrize("urls", [[], ["http://a", "http://a"]])
def test_no_endpoint_or_one_twice_is_a_mistake_in_the_config(urls):
    with pytest.raises(ConfigError, match=r"server\.urls"):
        open_pool("sglang", [At(url) for url in urls], vocab_size=9, max_connections=1)


def test_a_pool_is_opened_by_kind():
    async def use():
        pool = open_pool("llamacpp", [At("http://127.0.0.1:1")], vocab_size=9, max_connections=1)
        await pool.close()
        return pool.kind

    assert run(use()) == "llamacpp"


def test_an_empty_pool_cannot_be_made():
    with pytest.raises(ValueError, match="at least one"):
        EnginePool({})
