"""What nvidia-smi says, and that nothing fails where it says nothing."""

import asyncio
import sys

import pytest

from runner.gpuwatch import GpuLook, GpuWatch, parse


def test_all_gpus_are_one_look() -> None:
    found = parse("310.50, 70000, 90\n289.50, 71000, 70\n")
    assert found == GpuLook(gpus=2, power_w=600.0, memory_mib=141000.0, load=0.8)


def test_what_a_card_does_not_tell_is_0() -> None:
    found = parse("[N/A], 70000, 90\n")
    assert found is not None
    assert found.power_w == 0.0


@pytest.mark.parametrize("text", ["", "\n", "No devices were found\n"])
def test_no_gpu_is_no_look(text: str) -> None:
    assert parse(text) is None


def test_figures_are_averages_and_memory_is_the_most() -> None:
    watch = GpuWatch()
    watch.add(GpuLook(gpus=1, power_w=100.0, memory_mib=5.0, load=0.5))
    watch.add(GpuLook(gpus=1, power_w=300.0, memory_mib=4.0, load=1.0))
    assert (watch.power_w, watch.memory_mib, watch.load) == (200.0, 5.0, 0.75)


async def watch_for(watch: GpuWatch, seconds: float) -> None:
    task = asyncio.ensure_future(watch.watch(interval_s=0.01))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_program_that_answers_is_asked_again() -> None:
    watch = GpuWatch((sys.executable, "-c", "print('200, 1000, 50')"))

    async def until_two_looks() -> None:
        task = asyncio.ensure_future(watch.watch(interval_s=0.01))
        while watch.looks < 2:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(until_two_looks(), 60))
    assert watch.gpus == 1


@pytest.mark.parametrize("command", [("/no/such/program",), (sys.executable, "-c", "exit(9)")])
def test_a_missing_or_broken_program_ends_the_asking_only(command: tuple[str, ...]) -> None:
    watch = GpuWatch(command)
    asyncio.run(watch_for(watch, 0.5))
    assert (watch.looks, watch.gpus) == (0, 0)
