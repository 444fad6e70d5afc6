"""What follows when the breaker trips: look at the server, restart it once if it is ours, and go
on or stop.
"""

from collections.abc import Callable

from runner.errors import BadAnswers
from runner.serving import Serving
from runner.shortcanary import ShortCanary
from runner.watch import Alarm, Watch, bad_answers

Decode = Callable[[list[int]], str]


class Recovery:
    """One chance for an attempt: the second trip stops the run."""

    def __init__(
        self,
        serving: Serving,
        short_canary: ShortCanary,
        watch: Watch,
        decode: Decode,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._serving = serving
        self._short_canary = short_canary
        self._watch = watch
        self._decode = decode
        self._say = say
        self._used = False

    async def after(self, alarm: Alarm) -> None:
        """Return when sending may go on.

        Raises:
            BadAnswers: it may not: the answers are bad again, or to short fixed prompts too.
        """
        error = bad_answers("The circuit breaker stopped the run", alarm, self._decode)
        if self._used:
            raise error
        self._used = True
        self._say(
            f"circuit breaker: {alarm.count} of {alarm.of} answers bad, mainly {alarm.reason}"
        )
        cause = f"breaker: {alarm.reason}"
        if self._serving.ours:
            await self._serving.renew(cause)
        else:
            await self._look(error, cause)
        self._watch.forget()
        self._say("circuit breaker: short prompts are answered well; going on")

    async def _look(self, error: BadAnswers, cause: str) -> None:
        """A server of somebody else: ask it, and stop with the first evidence if it is bad."""
        pool = await self._serving.pool()
        try:
            await self._short_canary.check(pool, launch=self._serving.launch, cause=cause)
        except BadAnswers as again:
            raise error from again
