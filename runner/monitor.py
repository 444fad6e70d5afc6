"""Once a second: the figures of now, for the screen and for tracking."""

import asyncio
import time
from collections.abc import Callable

from runner.display import Display, Rate, Snapshot
from runner.generate import Sender
from runner.recorder import Recorder
from runner.records import Counts
from runner.stats import CategoryStats
from runner.tracking import Tracker

TICK_S = 0.5
FIRST_POINT_S = 1.0
POINTS_AT_FIRST = 20


class Monitor:
    """Looks at the recorder and the sender, and tells those who want to know."""

    def __init__(
        self,
        recorder: Recorder,
        sender: Sender,
        display: Display,
        tracker: Tracker,
        *,
        interval_s: float,
        server_figures: Callable[[], dict[str, float]],
    ) -> None:
        self._recorder = recorder
        self._sender = sender
        self._display = display
        self._tracker = tracker
        self._interval_s = interval_s
        self._server_figures = server_figures
        self._rate = Rate()
        self._began_at = self._tracked_at = time.monotonic()
        self.stage = "canary"

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(TICK_S)

    def tick(self) -> None:
        """One look, and whatever is due."""
        snapshot = self.snapshot()
        self._display.show(snapshot)
        now = time.monotonic()
        elapsed_s = self._tracked_at - self._began_at
        if now - self._tracked_at >= next_point_s(elapsed_s, self._interval_s):
            self.track()

    def track(self) -> None:
        """One point for MLflow; step = output tokens so far, which grows across attempts."""
        self._tracked_at = time.monotonic()
        snapshot = self.snapshot()
        whole = self._recorder.stats.all()
        self._tracker.metrics(
            {
                **figures_of_now(snapshot.counts, whole),
                "tokens_per_s": snapshot.tokens_per_s,
                "in_flight": snapshot.in_flight,
                **self._server_figures(),
            },
            step=whole.output_tokens,
        )

    def snapshot(self) -> Snapshot:
        """The figures of this moment."""
        counts, whole = self._recorder.counts, self._recorder.stats.all()
        self._rate.add(whole.output_tokens, counts.planned - counts.pending)
        tokens_per_s, samples_per_s = self._rate.per_s()
        return Snapshot(
            stage=self.stage,
            counts=counts,
            output_tokens=whole.output_tokens,
            tokens_per_s=tokens_per_s,
            eta_s=counts.pending / samples_per_s if samples_per_s > 0 else None,
            in_flight=self._sender.in_flight,
            at_risk=self._recorder.at_risk,
            finish=dict(whole.finish),
            rejected={
                name: one.rejected
                for name, one in self._recorder.stats.categories.items()
                if one.rejected
            },
        )


def figures_of_now(counts: Counts, whole: CategoryStats) -> dict[str, float]:
    """How far a run is, as tracking is told it."""
    samples = max(1, whole.samples)
    return {
        "done": whole.samples,
        "pending": counts.pending,
        "failed": counts.failed,
        "output_tokens": whole.output_tokens,
        "prompt_tokens": whole.prompt_tokens,
        "rejected_share": counts.rejected / samples,
        "flagged_share": whole.flagged / samples,
        "truncated_share": whole.finish["length"] / samples,
    }


def next_point_s(elapsed_s: float, interval_s: float) -> float:
    """How long after a point the next one is due: `interval_s`, and sooner while the run is young,
    so that a run of seconds has a curve too (some hundred points in the first half hour)."""
    return min(interval_s, max(FIRST_POINT_S, elapsed_s / POINTS_AT_FIRST))
