"""A run of 1,100,000 planned samples of which 1,000,000 are done: what resuming costs.

    python benchmarks/ledger.py [--planned N] [--done N] [--folder DIR]

Makes the run's files once (verdicts as rich as the default validators write them; samples carry few
ids, since resuming never decodes those of a sealed shard), then measures in a process of its own
what an attempt does before it can send: compare the prompts of samples and plan, count the plan,
sum up what is owed for the check of the disk, recover both writers, judge what has no verdict, fold
the figures of all that is done, count again, and list what is owed to the last one.
Rendering is left out: only owed rows are rendered. The limit is on CPU time, since the machine may
be shared. Exit code 1 when one is not met.
"""

import argparse
import hashlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from runner.ledger import (
    PartRequest,
    PlanRequest,
    account,
    owed,
    owed_by_part,
    sample_keying,
    supersede_other_prompts,
)
from runner.recorder import Recorder
from runner.records import JudgedVerdict, Judgement, Outcome, PlannedSample, Sample
from runner.rundir import RunDir, replace_file
from runner.selection import MAX_U64, keep_selection
from runner.shards import ShardWriter

MAX_S, MAX_MIB = 15.0, 400
CHECKS = [
    "contract",
    "prompt",
    "finish",
    "vocab",
    "thinking",
    "channels",
    "tool_calls",
    "degeneration",
    "text",
    "lengths",
    "answer",
]
PARTS = 8
WHOLE = [JudgedVerdict(outcome=Outcome.PASS)] * len(CHECKS)


class NoJudge:
    """Everything is judged already."""

    def describe(self) -> bytes:
        return b"{}"


def prompt_hash(number: int) -> str:
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()


def planned(number: int) -> PlannedSample:
    part = f"B{number % PARTS + 1}"
    return PlannedSample(
        sample_id=f"{part}-{number}-0",
        prompt=number,
        prompt_hash=prompt_hash(number),
        category=part,
        row=number,
        k=0,
        prompt_tokens=200,
    )


def sample(one: PlannedSample) -> Sample:
    return Sample(
        run_id="bench",
        sample_id=one.sample_id,
        category=one.category,
        source="",
        row=one.row,
        turn=0,
        k=0,
        try_=0,
        prompt_hash=one.prompt_hash,
        mode="thinking",
        sampling_digest="0" * 16,
        input_ids=[one.row % 1000] * 8,
        output_ids=[one.row % 1000] * 8,
        finish="stop",
        matched_token=7,
        matched_text="",
        finish_length=-1,
        requested_max_new_tokens=512,
        prompt_echo="same",
        prompt_tokens=8,
        completion_tokens=8,
        cached_tokens=0,
        retractions=0,
        weight_version="",
        endpoint="http://127.0.0.1:30000",
        launch=1,
        attempt=1,
        sent_at=1.5,
        finished_at=2.5,
        latency_s=1.0,
    )


def judgement(one: PlannedSample) -> Judgement:
    verdicts = dict(zip(CHECKS, WHOLE, strict=True))
    if one.row % 3 == 0:
        verdicts["answer"] = JudgedVerdict(
            outcome=Outcome.FAIL,
            reason="wrong_answer",
            severity="info",
            score=0.0,
            detail=f"the answer is {one.row}, the reference is {one.row + 1}",
        )
    return Judgement(
        sample_id=one.sample_id,
        prompt_hash=one.prompt_hash,
        category=one.category,
        try_=0,
        finish="stop" if one.row % 50 else "length",
        prompt_tokens=200 + one.row % 900,
        output_tokens=2000 + one.row % 6000,
        reasoning_tokens=1500 + one.row % 5000,
        answer_tokens=400,
        tool_call_tokens=0,
        rejected=one.row % 997 == 0,
        verdicts=verdicts,
        output_hash=one.prompt_hash,
    )


def make(run: RunDir, plan: int, done: int) -> None:
    """The run directory as a killed attempt would leave it: everything sealed but the last."""

    def write(folder: Path, lines: Iterator[msgspec.Struct]) -> None:
        with ShardWriter(folder, keying=sample_keying, shard_bytes=64 * 2**20, fsync=False) as out:
            for line in lines:
                while out.backlog_bytes > 2**26:
                    time.sleep(0.01)
                out.put(msgspec.json.encode(line))

    write(run.plan, (planned(n) for n in range(plan)))
    write(run.samples, (sample(planned(n)) for n in range(done)))
    write(run.verdicts("online"), (judgement(planned(n)) for n in range(done)))
    part = PartRequest(fingerprint="", rows=plan, count=None, n=1, threshold=MAX_U64 - 1)
    parts = {f"B{n + 1}": part for n in range(PARTS)}
    request = PlanRequest(seed=42, parts=parts)
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    keep_selection(run)


def resume(run: RunDir, plan: int, done: int) -> int:
    """What an attempt does before it sends. Prints the figures."""
    before_mib, start, wall = peak_mib(), time.process_time(), time.monotonic()

    def lap(what: str) -> None:
        cpu_s, wall_s = time.process_time() - start, time.monotonic() - wall
        print(f"{what:<24}{cpu_s:7.2f} s CPU {wall_s:7.2f} s   {peak_mib():6.0f} MiB at most")

    assert supersede_other_prompts(run) == 0
    lap("plan compared")
    counts = account(run, "online", max_attempts=4).counts
    lap("counted")
    due = owed_by_part(run, max_attempts=4, retry_failed=False)
    assert sum(one.samples for one in due.values()) == plan - done
    lap("summed up what is owed")
    with Recorder(run, NoJudge(), "online", max_attempts=4) as recorder:  # type: ignore[arg-type]
        lap("recorder open")
        assert recorder.counts == counts
        left = sum(1 for _ in owed(run, max_attempts=4, retry_failed=False))
        lap("listed what is owed")
        took_s, used_mib = time.process_time() - start, peak_mib()
    assert (counts.planned, counts.pending, left) == (plan, plan - done, plan - done), counts
    print(f"{counts}\nprocess before: {before_mib:.0f} MiB")
    print(f"resume of {done:,} of {plan:,}: {took_s:.1f} s CPU (limit {MAX_S:.0f}), "
          f"{used_mib:.0f} MiB (limit {MAX_MIB})")  # fmt: skip
    return int(took_s > MAX_S or used_mib > MAX_MIB)


def peak_mib() -> float:
    """Of this process alone: ru_maxrss would begin with what the one that started it had."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planned", type=int, default=1_100_000)
    parser.add_argument("--done", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the run here and use it again")
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.resume:
        return resume(RunDir(asked.folder), asked.planned, asked.done)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary) / "run"
        if not folder.exists():
            start = time.monotonic()
            make(RunDir(folder), asked.planned, asked.done)
            print(f"made the run in {time.monotonic() - start:.0f} s")
        command = [sys.executable, __file__, "--resume", "--folder", str(folder)]
        command += ["--planned", str(asked.planned), "--done", str(asked.done)]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
