"""A few ways to wait for several coroutines. Whatever ends a wait, nothing is left running."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def first(*coroutines: Coroutine[Any, Any, object]) -> object:
    """The result of whichever ends first; the others are cancelled."""
    tasks = [asyncio.ensure_future(c) for c in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task.result() for task in tasks if task in done)
    finally:
        await _end(tasks)


async def run_all(coroutines: Sequence[Coroutine[Any, Any, None]], until: asyncio.Event) -> None:
    """Run all to their end; the first exception, or `until`, cancels the rest."""
    tasks = [asyncio.ensure_future(c) for c in coroutines]
    ending = asyncio.ensure_future(until.wait())
    pending: set[asyncio.Future[Any]] = {ending, *tasks}
    try:
        while pending - {ending} and not ending.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await _end([ending, *tasks])


async def run_beside(
    main: Coroutine[Any, Any, None],
    background: Sequence[Coroutine[Any, Any, None]],
    limit: Coroutine[Any, Any, None],
) -> None:
    """Run `main` to its end, or until `limit` ends; a background one that fails ends it too."""
    working, limiting = asyncio.ensure_future(main), asyncio.ensure_future(limit)
    beside = [asyncio.ensure_future(c) for c in background]
    waiting: set[asyncio.Future[Any]] = {working, limiting, *beside}
    try:
        while not working.done() and not limiting.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await _end([working, limiting, *beside])


async def _end(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
