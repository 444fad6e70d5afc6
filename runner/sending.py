"""From what a run owes to nothing owed: the senders of one attempt put together, and run."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from runner.budget import WHOLE, Budget
from runner.config import Config
from runner.display import Display
from runner.errors import Enough, Interrupted
from runner.estimate import LEAST_WAVE, WAVE_TURNOVERS, estimate_rest, lines
from runner.flow import Flow
from runner.generate import Feed, Origin, Request, Sender, requests_of
from runner.gpuwatch import GpuWatch
from runner.identity import digest_of
from runner.ledger import owed
from runner.model import RunModel
from runner.monitor import Monitor
from runner.performance import Spent, measure
from runner.permits import Permits
from runner.plan import PromptReader, part_budgets
from runner.preflight import Limits, refuse
from runner.recorder import Recorder
from runner.refit import refit
from runner.rundir import RunDir, replace_file
from runner.serving import Serving
from runner.shortcanary import ShortCanary
from runner.standing import Standing
from runner.stopping import Stop
from runner.tail import rearranged
from runner.tasks import first, run_beside
from runner.tracking import Tracker
from runner.tuning import trial_over
from runner.validate import Judge
from runner.watch import Watch
from runner.waves import Waves, open_waves, spread_first


class Sending:
    """One attempt's sending. `recorder` is open; `folder` is the attempt's; `limits` are those of
    the server too, once it is ready."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        folder: Path,
        standing: Standing,
        recorder: Recorder,
        model: RunModel,
        judge: Judge,
        *,
        flow: Flow,
        spent: Spent,
        gpu: GpuWatch,
        stop: Stop,
        display: Display,
        limits: Callable[[], Limits],
    ) -> None:
        self._config = config
        self._run = run
        self._folder = folder
        self._standing = standing
        self._recorder = recorder
        self._model = model
        self._judge = judge
        self._flow = flow
        self._spent = spent
        self._gpu = gpu
        self._stop = stop
        self._display = display
        self._limits = limits
        self._trial_shown = ""

    async def send_all(
        self, serving: Serving, starting: "asyncio.Future[None]", tracker: Tracker
    ) -> None:
        """Send what is owed, canary first, until nothing is or the run is told to stop.

        Raises:
            Interrupted: a signal; what was finished is saved.
            Enough: `estimate=true`, and its wave is measured; or a trial is over.
            BadAnswers, ServerError, MachineError: the run must stop; what was accepted stays.
        """
        config, model, display = self._config, self._model, self._display
        origin = self._origin()
        watch = Watch(config.breaker, self._judge.expected, canary=config.canary)
        flow = self._flow
        sender = Sender(
            serving,
            self._recorder,
            model.sampling,
            origin,
            config.client,
            self._stop,
            watch,
            self._budget(),
            flow,
        )
        monitor = Monitor(
            self._recorder,
            sender,
            display,
            tracker,
            interval_s=config.tracking.interval_s,
            server_figures=serving.figures,
        )
        feed = Feed(self._requests(flow.permits), flow.ahead, self._stop)
        await until_ready(starting, self._stop)
        sender.limits = self._limits()
        if await self._refit(sender.limits):
            feed = Feed(self._requests(flow.permits), flow.ahead, self._stop)
        background = [feed.fill(), serving.keep(), monitor.watch()]
        background += flow.background(serving.look, folder=self._folder, say=display.say)
        background.append(self._gpu.watch())
        log = self._folder / "canary.jsonl"
        short = ShortCanary(model, self._judge, origin, config, log=log)
        decode = model.tokenizer.decode
        waves = open_waves(serving, sender, feed, watch, short, decode, say=display.say)
        limit = self._limit()
        await run_beside(self._waves(waves, monitor), background, limit)
        monitor.track()
        if self._stop.requested:
            raise Interrupted(
                f"{self._stop.signal}: everything finished is saved.",
                next_step="the same command continues",
            )
        await self._recorder.settle()
        if self._trial_shown:
            raise Enough(f"The trial is over: {self._trial_shown}.")
        self._estimate()
        self._leave_rest()

    async def _refit(self, limits: Limits) -> bool:
        """Bring the plan to what the server takes; whether that changed it.

        Raises:
            MachineError: prompts do not fit there, and `prompts.stop_on` names that.
        """
        most = self._config.client.retry.max_attempts
        summary = await asyncio.to_thread(refit, self._run, limits, max_attempts=most)
        if summary is None:
            return False
        self._display.say(
            f"the server takes prompts of {limits.longest:,} tokens beside "
            f"max_new_tokens={limits.max_new_tokens:,}; the plan is brought to that:"
        )
        for line in summary.lines():
            self._display.say(line)
        refuse(summary, self._config.prompts.stop_on)
        self._recorder.recount()
        return True

    async def _limit(self) -> None:
        """Returns when sending must end although more is owed: long enough after a signal, or when
        a trial has shown enough."""
        drained = drain_limit(self._stop, self._config.shutdown.drain_s, self._display.say)
        shown = await first(drained, trial_over(self._flow.meter, self._config))
        self._trial_shown = shown if isinstance(shown, str) else ""

    def _origin(self) -> Origin:
        sampling = msgspec.to_builtins(self._model.sampling)
        return Origin(
            run_id=self._standing.state.run_id,
            mode=self._config.mode.name,
            sampling_digest=digest_of(sampling)[:16],
            attempt=self._standing.state.attempts,
        )

    def _budget(self) -> Budget:
        config = self._config
        most, parts = config.sampling.max_new_tokens, config.category.parts
        categories = self._recorder.stats.categories.items()
        return Budget(
            {WHOLE: config.budget.output_tokens, **part_budgets(config)},
            guesses={n: min(p.expected.output_tokens or most, most) for n, p in parts.items()},
            spent={name: (one.output_tokens, one.samples) for name, one in categories},
        )

    def _requests(self, permits: Permits) -> Iterator[Request]:
        config = self._config
        planned = owed(
            self._run,
            max_attempts=config.client.retry.max_attempts,
            retry_failed=config.resume.retry_failed,
        )
        planned = rearranged(planned, config, self._recorder, permits)
        ordered = spread_first(planned, config.canary.count, len(config.category.parts))
        return requests_of(ordered, PromptReader(self._run), self._model.ahead)

    async def _waves(self, waves: Waves, monitor: Monitor) -> None:
        with self._spent.during("canary"):
            await waves.canary(self._config.canary)
        await self._recorder.settle()  # the canary's tokens must not count as the bulk's
        self._display.say(self._recorder.echo_line)
        monitor.stage = "generating"
        with self._standing.generating(), self._flow.meter.bulk():
            if self._config.estimate:
                await waves.some(max(LEAST_WAVE, WAVE_TURNOVERS * self._flow.permits.number))
            else:
                await waves.bulk()

    def _estimate(self) -> None:
        """Tell what is still to come, and stop. Raises Enough."""
        config, recorder = self._config, self._recorder
        if not config.estimate:
            return
        if not recorder.counts.pending:
            self._display.say("estimate: nothing is left to estimate, its wave was the whole run")
            return
        speed = measure(
            self._flow.meter, self._spent, self._gpu, config.cost, now_s=time.monotonic()
        )
        made = estimate_rest(self._run, config, recorder, speed)
        if made is None:
            raise Enough("The wave was too short to estimate from.")
        replace_file(self._folder / "estimate.json", msgspec.json.encode(made))
        raise Enough(
            "\n  ".join(["Estimated; what was measured is kept.", *lines(made)]),
            next_step="the same command without estimate=true goes on",
        )

    def _leave_rest(self) -> None:
        """All was sent, or a budget is why not."""
        left = self._recorder.counts.pending
        if left and (self._config.budget.output_tokens or part_budgets(self._config)):
            self._recorder.leave_rest()
            self._display.say(
                f"budget spent: {left:,} samples are skipped; a larger budget.output_tokens "
                "sends them"
            )


async def until_ready(starting: "asyncio.Future[None]", stop: Stop) -> None:
    """Wait for the server's start. Raises what it raised, or Interrupted."""
    stopping = asyncio.ensure_future(stop.draining.wait())
    try:
        both: list[asyncio.Future[Any]] = [starting, stopping]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise Interrupted(
                f"{stop.signal} while the server was starting.",
                next_step="the same command continues",
            )
        await starting
    finally:
        stopping.cancel()


async def drain_limit(stop: Stop, drain_s: float, say: Callable[[str], None]) -> None:
    """Ends `drain_s` after the run was told to stop."""
    await stop.draining.wait()
    await asyncio.sleep(drain_s)
    say(f"drain limit of {drain_s:.0f} s is over")
