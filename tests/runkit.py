"""A run on disk without a model: a plan, samples, verdicts and failures, written by the real
writers, and the accounting as a person would do it, with dicts."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from runner.ledger import sample_keying
from runner.records import (
    Counts,
    Failure,
    JudgedVerdict,
    Judgement,
    Outcome,
    PlannedSample,
    Prompt,
    RunStatus,
    Sample,
)
from runner.rundir import RunDir, RunState, append_lines, replace_file
from runner.selection import MAX_U64, PartRequest, PlanRequest, keep_selection
from runner.shards import ShardWriter

MOST = 4
"""max_attempts."""
PASS = JudgedVerdict(outcome=Outcome.PASS)


def hash_of(row: int, version: int = 0) -> str:
    return f"{row * 7919 + version * 104_729 + 1:032x}"[::-1]


def planned(row: int, k: int = 0, *, part: str = "B4", version: int = 0, skip: str = ""):
    return PlannedSample(
        sample_id=f"{part}-{row}-{k}",
        prompt=row,
        prompt_hash=hash_of(row, version),
        category=part,
        row=row,
        k=k,
        prompt_tokens=5,
        skip=skip,
    )


def sample(of: PlannedSample, *, try_: int = 0, finish: str = "stop", launch: int = 1) -> Sample:
    ids = [of.row % 50, try_, 7]
    return Sample(
        run_id="r",
        sample_id=of.sample_id,
        category=of.category,
        source="",
        row=of.row,
        turn=0,
        k=of.k,
        try_=try_,
        prompt_hash=of.prompt_hash,
        mode="thinking",
        sampling_digest="d",
        input_ids=[1, 2, 3, 4, 5],
        output_ids=ids,
        finish=finish,
        matched_token=7,
        matched_text="",
        finish_length=-1,
        requested_max_new_tokens=9,
        prompt_echo="same",
        prompt_tokens=5,
        completion_tokens=len(ids),
        cached_tokens=-1,
        retractions=-1,
        weight_version="",
        endpoint="http://e",
        launch=launch,
        attempt=1,
        sent_at=1.0,
        finished_at=2.0,
        latency_s=1.0,
    )


def judgement(of: Sample, *, rejected: bool = False, reason: str = "") -> Judgement:
    severity = "reject" if rejected else "flag"
    bad = JudgedVerdict(outcome=Outcome.FAIL, reason=reason or "bad", severity=severity)
    return Judgement(
        sample_id=of.sample_id,
        prompt_hash=of.prompt_hash,
        category=of.category,
        try_=of.try_,
        finish=of.finish,
        prompt_tokens=of.prompt_tokens,
        output_tokens=len(of.output_ids),
        reasoning_tokens=1,
        answer_tokens=2,
        tool_call_tokens=0,
        rejected=rejected,
        verdicts={"one": PASS, "two": bad if rejected or reason else PASS},
    )


def failure(
    of: PlannedSample, *, requests: int = MOST, permanent: bool = False, try_: int = 0
) -> Failure:
    return Failure(
        sample_id=of.sample_id,
        prompt_hash=of.prompt_hash,
        category=of.category,
        kind="failed",
        reason="broken",
        requests=requests,
        permanent=permanent,
        try_=try_,
    )


def write(folder: Path, records: Iterable[msgspec.Struct], **options: object) -> None:
    with ShardWriter(folder, keying=sample_keying, fsync=False, **options) as out:
        for record in records:
            out.put(msgspec.json.encode(record))


class Kit:
    """One run directory, and the verbs that happen to it."""

    def __init__(self, path: Path) -> None:
        self.run = RunDir(path)

    def plan(
        self,
        rows: Iterable[PlannedSample],
        *,
        n: int = 9,
        threshold: int = MAX_U64,
        parts: Iterable[str] = ("B4",),
    ) -> None:
        """Add lines to the plan, and ask for them."""
        rows = list(rows)
        write(self.run.plan, rows)
        with ShardWriter(self.run.prompts, keying=lambda _line: ("", 0), fsync=False) as out:
            for one in rows:
                messages = [{"role": "user", "content": one.sample_id}]
                prompt = Prompt(
                    prompt_hash=one.prompt_hash,
                    category=one.category,
                    row=one.row,
                    messages=messages,
                )
                out.put(msgspec.json.encode(prompt))
        self.request(n=n, threshold=threshold, parts=parts)

    def request(
        self, *, n: int = 9, threshold: int = MAX_U64, parts: Iterable[str] = ("B4",), **more: int
    ) -> None:
        part = PartRequest(fingerprint="f", rows=99, count=None, n=n, threshold=threshold)
        request = PlanRequest(seed=42, parts=dict.fromkeys(parts, part), **more)
        replace_file(self.run.plan / "request.json", msgspec.json.encode(request))
        keep_selection(self.run)

    def samples(self, samples: Iterable[Sample], **options: object) -> None:
        write(self.run.samples, samples, **options)

    def judge(self, judgements: Iterable[Judgement], **options: object) -> None:
        write(self.run.verdicts("online"), judgements, **options)

    def fail(self, *failures: Failure) -> None:
        append_lines(self.run.failures, failures)

    def state(self, **changes: object) -> RunState:
        state = RunState(run_id=self.run.path.name, status=RunStatus.DONE, attempts=1)
        state = msgspec.structs.replace(state, **changes)
        self.run.write(state)
        return state


def counts(planned_: int, **others: int) -> Counts:
    return Counts(planned=planned_, **others)
