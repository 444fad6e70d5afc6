"""`budget.output_tokens`: sending stops in time, and what was not sent is `skipped: budget`.

A request is sent when the tokens spent, and an average answer for it and each request in flight,
fit into the budget; when they do not, it waits for those in flight. The sending order spreads every
part evenly, so what a budget cuts off it cuts off proportionally. A part may have a budget of its
own. Before there is an average, an answer counts as long as the part expects it to be, or as
sampling.max_new_tokens.

A budget is reached when one more average answer would exceed it: a rule on durable figures alone,
so the accounting of a finished run (`runner.ledger.count`) says the same as the sender did.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

WHOLE = ""
"""The name of the whole run's budget beside those of parts."""


def reached(limit: int | None, tokens: int, samples: int) -> bool:
    """Whether one more average answer would exceed the limit. Never before the first sample."""
    return limit is not None and samples > 0 and tokens + tokens / samples > limit


@dataclass
class _Account:
    """What one budget has been charged."""

    limit: int | None
    guess: int
    tokens: int = 0
    samples: int = 0
    in_flight: int = 0

    def fits(self) -> bool:
        """Whether one more request may be sent now."""
        if self.limit is None:
            return True
        if self.samples == 0 and self.in_flight == 0:
            return True
        each = self.tokens / self.samples if self.samples else self.guess
        return self.tokens + each * (self.in_flight + 1) <= self.limit

    def exhausted(self) -> bool:
        """Whether nothing more can be sent, whatever those in flight bring."""
        return self.in_flight == 0 and reached(self.limit, self.tokens, self.samples)


class Budget:
    """Admits requests. For one event loop; `spent` is what earlier attempts used, by part."""

    def __init__(
        self,
        limits: Mapping[str, int | None],
        *,
        guesses: Mapping[str, int],
        spent: Mapping[str, tuple[int, int]],
    ) -> None:
        longest = max(guesses.values(), default=1)
        self._accounts = {WHOLE: _Account(limits.get(WHOLE), longest)}
        for part, guess in guesses.items():
            self._accounts[part] = _Account(limits.get(part), guess)
        for part, (tokens, samples) in spent.items():
            self._charge(part, tokens, samples)
        self._settled = asyncio.Event()
        self._limited = any(account.limit is not None for account in self._accounts.values())

    async def admit(self, part: str) -> bool:
        """Whether to send a request of this part; waits for those in flight where they decide. What
        was admitted must be given to `settled`."""
        accounts = self._of(part)
        while self._limited and not all(account.fits() for account in accounts):
            if any(account.exhausted() for account in accounts):
                return False
            self._settled.clear()
            await self._settled.wait()
        for account in accounts:
            account.in_flight += 1
        return True

    def settled(self, part: str) -> None:
        """A request that was admitted has ended, whatever its end."""
        for account in self._of(part):
            account.in_flight -= 1
        self._settled.set()

    def spend(self, part: str, tokens: int) -> None:
        """An answer was accepted."""
        self._charge(part, tokens, 1)

    def _charge(self, part: str, tokens: int, samples: int) -> None:
        for account in self._of(part):
            account.tokens += tokens
            account.samples += samples

    @property
    def is_reached(self) -> bool:
        """Whether the whole run's budget ends the run."""
        return self._accounts[WHOLE].exhausted()

    def _of(self, part: str) -> list[_Account]:
        return [self._accounts[name] for name in {WHOLE, part} if name in self._accounts]


def cut_off(
    limits: Mapping[str, int | None], spent: Mapping[str, tuple[int, int]], part: str
) -> bool:
    """Whether what is still pending of a part is cut off by a budget. `spent` is (output tokens,
    samples) by part."""
    tokens = sum(t for t, _ in spent.values())
    samples = sum(n for _, n in spent.values())
    return reached(limits.get(WHOLE), tokens, samples) or reached(
        limits.get(part), *spent.get(part, (0, 0))
    )
