"""How many requests may be in flight, as permits: a number that may change while they are out."""

import asyncio
from collections import deque
from types import TracebackType


class Permits:
    """`async with permits:` holds one. `most` is what `number` may ever become. For one event loop.

    When the number falls, nothing in flight is touched: permits that come back are not given out.
    """

    def __init__(self, number: int, *, most: int | None = None) -> None:
        self.number = number
        self.most = number if most is None else most
        self._out = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def set(self, number: int) -> None:
        """From now on so many (at least 1, at most `most`)."""
        self.number = max(1, min(self.most, number))
        self._wake()

    async def __aenter__(self) -> None:
        if self._out < self.number and not self._waiting:
            self._out += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._back()  # it was given one in the same moment
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._back()

    def _back(self) -> None:
        self._out -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._out < self.number:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._out += 1
                waiter.set_result(None)
