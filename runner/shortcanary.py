"""A few fixed short prompts, asked of a server that was just started again or is in doubt.

Their answers are judged as samples are, written to the attempt's canary.jsonl, and never to shards.
"""

import asyncio
import contextlib
import time
from pathlib import Path

import msgspec

from runner.config import Config
from runner.engines.base import EngineFault, FaultKind
from runner.engines.pool import EnginePool
from runner.generate import Origin, Request, sample_of
from runner.model import RunModel
from runner.prompts.shape import Conversation
from runner.records import Expected, OwedSample, Prompt, Record
from runner.rundir import append_line
from runner.validate import Judge
from runner.watch import Event, alarm_of, bad_answers, event_of

QUESTIONS = (
    "What is 2 + 3?",
    "Name a colour.",
    "Write one sentence about rain.",
    "What comes after Tuesday?",
    "Translate 'good morning' into French.",
    "Is 17 a prime number?",
    "Give me a synonym of 'quick'.",
    "Count from 1 to 5.",
)
MAX_NEW_TOKENS = 64
CATEGORY = "canary"


class CanaryLine(Record, frozen=True, kw_only=True):
    """A line of attempts/NNNN/canary.jsonl."""

    at: float
    launch: int
    cause: str
    question: str
    reason: str
    detail: str
    output_ids: list[int]


class ShortCanary:
    """Asks the questions one after the other. Raises BadAnswers when too many answers are bad."""

    def __init__(
        self, model: RunModel, judge: Judge, origin: Origin, config: Config, *, log: Path
    ) -> None:
        self._model = model
        self._judge = judge
        self._origin = origin
        self._canary = config.canary
        self._log = log
        self._patience_s = config.server.stall_s

    async def check_restarted(self, pool: EnginePool, launch: int, cause: str) -> None:
        """As `check`, for `Serving`."""
        await self.check(pool, launch=launch, cause=cause)

    async def check(self, pool: EnginePool, *, launch: int, cause: str) -> None:
        """Ask and judge; a server that does not answer in time is for others to see.

        Raises:
            BadAnswers: more than `canary.max_rejected` of the answers are bad.
        """
        events: list[Event] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                for number, question in enumerate(QUESTIONS[: self._canary.count]):
                    event, output_ids = await self._ask(pool, number, question, launch)
                    if event is not None:
                        events.append(event)
                        self._note(event, output_ids, question, launch=launch, cause=cause)
        alarm = alarm_of(events, self._canary.max_rejected, {}) if events else None
        if alarm is not None:
            raise bad_answers(
                f"The server gives bad answers to short fixed prompts ({cause})",
                alarm,
                self._model.tokenizer.decode,
            )

    def _note(
        self, event: Event, output_ids: list[int], question: str, *, launch: int, cause: str
    ) -> None:
        line = CanaryLine(
            at=round(time.time(), 3),
            launch=launch,
            cause=cause,
            question=question,
            reason=event.reason if event.bad else "",
            detail=event.detail if event.bad else "",
            output_ids=output_ids,
        )
        append_line(self._log, line)

    async def _ask(
        self, pool: EnginePool, number: int, question: str, launch: int
    ) -> tuple[Event | None, list[int]]:
        request = self._request(number, question)
        sampling = msgspec.structs.replace(
            self._model.sampling, max_new_tokens=MAX_NEW_TOKENS, min_new_tokens=0
        )
        sent_at, start = time.time(), time.monotonic()
        rid = f"canary-{launch}-{number}.{time.time_ns():x}"
        try:
            routed = await pool.send(rid, request.input_ids, sampling)
        except EngineFault as fault:
            if fault.kind not in (FaultKind.UNUSABLE, FaultKind.REFUSED):
                return None, []
            event = Event(CATEGORY, True, fault.reason, fault.detail, rid, raw=fault.raw[:280])
            return event, []
        sample = sample_of(
            request, routed, self._origin, sampling, launch, sent_at, time.monotonic() - start
        )
        judgement = self._judge.judge(sample, request.prompt)
        return event_of(judgement, sample, Expected()), sample.output_ids

    def _request(self, number: int, question: str) -> Request:
        conversation = Conversation(messages=[{"role": "user", "content": question}])
        prompt = Prompt(
            prompt_hash=conversation.prompt_hash,
            category=CATEGORY,
            row=number,
            messages=conversation.messages,
        )
        planned = OwedSample(
            sample_id=f"{CATEGORY}-{number}-0",
            prompt=-1,
            prompt_hash=prompt.prompt_hash,
            category=CATEGORY,
            row=number,
            k=0,
            prompt_tokens=0,
        )
        return Request(planned, prompt, self._model.render(prompt))
