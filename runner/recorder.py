"""Where answers become data: judged, written, synced, and only then counted.

Samples go through a writer thread; a sample is done when its frame is on disk. Its verdicts follow
it, and a sample whose verdict a crash lost is judged again at the next start. Failures are lines of
failures.jsonl. The counts here are always those of what is durable.
"""

import asyncio
from collections import Counter
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec
import numpy as np

from runner.accounting import check_accounts
from runner.errors import BadAnswers, Interrupted, MachineError
from runner.ledger import Accounts, account, fold, sample_keying, verdicts_missing
from runner.promptfinder import PromptFinder
from runner.records import Counts, Failure, Judgement, Prompt, Sample
from runner.rundir import RunDir, append_line, replace_file
from runner.shards import ShardWriter
from runner.stats import Stats
from runner.validate import Judge

BACKLOG_BYTES = 64 * 2**20
"""Raw bytes that may wait for the disk before senders pause."""


class Recorder:
    """Owns the shards and the verdicts of a run while an attempt lasts. A context manager."""

    def __init__(
        self,
        run: RunDir,
        judge: Judge,
        verdict_set: str,
        *,
        max_attempts: int,
        retry_failed: bool = False,
    ) -> None:
        self.stats = Stats()
        self.reasons: Counter[str] = Counter()
        """Failures by reason, this attempt."""
        self._echoes: Counter[str] = Counter()
        self._run = run
        self._judge = judge
        self._verdict_set = verdict_set
        self._max_attempts = max_attempts
        self._retry_failed = retry_failed
        self.unplanned = 0
        """Current samples that the plan does not ask for any more."""
        self._start = Counts()
        self._here: Counter[str] = Counter()
        """What became durable in this attempt: ok, rejected, failed, skipped."""
        self._accepted = 0
        self._closing = ExitStack()
        self._failure: MachineError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        directory = self._run.verdicts(self._verdict_set)
        self._verdicts = self._closing.enter_context(
            ShardWriter(directory, keying=sample_keying, fsync=False)
        )
        replace_file(directory / "validators.json", self._judge.describe())
        self._samples = self._closing.enter_context(
            ShardWriter(
                self._run.samples,
                keying=sample_keying,
                on_durable=self._on_durable,
                on_failure=self._on_failure,
            )
        )
        self._judge_missing()
        self.stats = fold(self._run, self._verdict_set)
        self.recount()
        return self

    def recount(self) -> None:
        """Count from the files, also after the plan changed. All that was accepted is durable."""
        self._verdicts.flush()
        accounts = self._account()
        start, self.unplanned = accounts.counts, accounts.unplanned
        if self._retry_failed:
            start = msgspec.structs.replace(start, pending=start.pending + start.failed, failed=0)
        self._start, self._here, self._accepted = start, Counter(), 0

    def _account(self) -> Accounts:
        return account(self._run, self._verdict_set, max_attempts=self._max_attempts)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Seal the shards; then, at an orderly end, the accounting must be that of the files.

        Raises MachineError when it is not, or when writing failed.
        """
        self._loop = None
        self._closing.__exit__(kind, error, trace)
        if error is None or isinstance(error, Interrupted | BadAnswers):
            accounts = self._account()
            check_accounts(self._run, self.counts, accounts, retried=self._retry_failed)
            self._start, self._here = accounts.counts, Counter()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fold durable samples on this loop's thread."""
        self._loop = loop

    @property
    def counts(self) -> Counts:
        """The accounting now, without reading the disk."""
        start, here = self._start, self._here
        return msgspec.structs.replace(
            start,
            ok=start.ok + here["ok"],
            rejected=start.rejected + here["rejected"],
            failed=start.failed + here["failed"],
            skipped=start.skipped + here["skipped"],
            pending=start.pending - here.total(),
        )

    @property
    def at_risk(self) -> int:
        """Samples that are finished and not yet on disk: what a power cut would cost."""
        return self._accepted - self._here["ok"] - self._here["rejected"]

    def accept(self, sample: Sample, prompt: Prompt) -> Judgement:
        """Judge a sample and hand it to the writer. Raises MachineError when the disk failed."""
        self._check()
        judgement = self._judge.judge(sample, prompt)
        self._samples.put(msgspec.json.encode(sample), judgement)
        self._echoes[sample.prompt_echo] += 1
        self._accepted += 1
        return judgement

    def failed(self, failure: Failure, *, for_good: bool) -> None:
        """Record a sample that got no usable answer in this attempt."""
        append_line(self._run.failures, failure)
        self.reasons[failure.reason] += 1
        if for_good:
            self._here["failed"] += 1

    @property
    def echo_line(self) -> str:
        """What is known of the prompt's way to the model: an engine compares each prompt's ids with
        those that the server says it read, and an answer whose echo differs is never accepted."""
        same, absent = self._echoes["same"], self._echoes["absent"]
        if not same + absent:
            return "prompt ids: no answer yet to compare with"
        if not same:
            return f"prompt ids: the server echoes none ({absent:,} answers); their count agrees"
        without = f"; {absent:,} came without an echo" if absent else ""
        return f"prompt ids: {same:,} prompts echoed by the server, each as it was sent{without}"

    def leave_rest(self) -> None:
        """Nothing more will be sent: what is pending is skipped (the budget is spent)."""
        self._here["skipped"] += self.counts.pending

    async def room(self) -> None:
        """Wait while the disk is far behind. Raises MachineError when it failed."""
        self._check()
        while self._samples.backlog_bytes > BACKLOG_BYTES:
            await asyncio.sleep(0.05)
            self._check()

    async def settle(self) -> None:
        """Return when all that was accepted is durable and counted."""
        await asyncio.to_thread(self._samples.flush)
        await asyncio.sleep(0)  # let the callbacks of the last frame run

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _on_failure(self, failure: MachineError) -> None:
        self._failure = failure

    def _on_durable(self, judgements: list[Judgement]) -> None:
        """In the writer thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._fold, judgements)
        else:
            self._fold(judgements)

    def _fold(self, judgements: list[Judgement]) -> None:
        for judgement in judgements:
            self._verdicts.put(msgspec.json.encode(judgement))
            self.stats.add(judgement)
            self._here["rejected" if judgement.rejected else "ok"] += 1

    def _judge_missing(self) -> None:
        """Judge the samples that have no verdict in this set (a crash, or a new set's name)."""
        reader, missing = verdicts_missing(self._run, self._verdict_set)
        if not missing.any():
            return
        prompts = PromptFinder(self._run)
        for position in np.flatnonzero(missing).tolist():
            sample = msgspec.json.decode(reader.at(position), type=Sample)
            judgement = self._judge.judge(sample, prompts.find(sample))
            self._verdicts.put(msgspec.json.encode(judgement))
        self._verdicts.flush()
