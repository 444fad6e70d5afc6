"""Shared values of the engine tests: sampling parameters, endpoints, and how to run a coroutine."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from runner.engines.base import EngineFault
from runner.records import SamplingParams

SAMPLING = SamplingParams(
    max_new_tokens=32,
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    repetition_penalty=1.0,
    min_new_tokens=0,
    ignore_eos=False,
    stop_token_ids=[2],
)

PROMPT = [40, 41, 42, 43]


class At(msgspec.Struct, frozen=True):
    """An endpoint."""

    url: str
    api_key: str = ""


def sampling(**changes: Any) -> SamplingParams:
    return msgspec.structs.replace(SAMPLING, **changes)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a test's coroutine; nothing in these tests may take longer than 30 s."""
    return asyncio.run(asyncio.wait_for(coroutine, 30))


async def fault_of(awaitable: Coroutine[Any, Any, Any]) -> EngineFault:
    """The fault that a request ends in. Fails the test when it gives a completion."""
    try:
        answer = await awaitable
    except EngineFault as fault:
        return fault
    raise AssertionError(f"expected a fault, got {answer}")
