"""Everything goes wrong at once: 2,000 prompts, three endpoints of which one is bad, and faults of
every kind. What must hold: the books balance, one sample per id, no wrong one accepted, and every
request that was sent is either an answer or a counted fault."""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from runner.ledger import read_judgements, read_samples
from runner.records import Counts, Sample
from runner.rundir import RunDir, find_runs
from tests.e2e.conftest import ROOT, TINY, Outputs, attach, prompt_file
from tests.engines.fake_answers import Fault, Scenario, output_for
from tests.fake_sglang import FakeSglang

ROWS = 2000
RETRIED = (
    "abort_200",
    "wrong_rid",
    "wrong_echo",
    "wrong_prompt_count",
    "wrong_completion_count",
    "missing_output_ids",
    "missing_meta",
    "finish_null",
    "no_output",
    "truncated_json",
    "html_error",
    "not_http",
    "reset_in_body",
    "close_early",
    "busy",
    "rate_limited",
)
REJECTED = ("nan_stop", "clamped_length", "padded_ids", "stop_in_middle")
HARMLESS = ("unknown_fields", "missing_echo", "retracted")
ERRORS = (("error_object", 500), ("error_text", 400), ("error_flat", 500), ("error_detail", 400))
FAULTS = [
    Fault(kind="hang", at=[200, 333, 444]),
    Fault(kind="die", at=[60, 250, 500]),
    *(Fault(kind=kind, rate=0.01, first=2) for kind in (*RETRIED, *REJECTED, *HARMLESS)),
    *(Fault(kind=kind, rate=0.01, status=status, first=2) for kind, status in ERRORS),
    Fault(kind="busy", first=100, last=130),
    Fault(kind="slow", rate=0.01, delay_s=0.5, first=2),
]
BAD = [Fault(kind="close_early", rate=0.5, first=2), Fault(kind="missing_meta", first=2)]
"""One that resets half of what it gets and answers the rest wrongly. (The first request is the
probe: an endpoint that fails it stops the run, and rightly.)"""


def scenario(faults: list[Fault]) -> Scenario:
    return Scenario(**TINY, latency_s=0.01, faults=faults, max_output=40)


@contextlib.asynccontextmanager
async def endpoints() -> AsyncIterator[list[FakeSglang]]:
    """Three servers; the ones that die come back after a moment."""
    async with contextlib.AsyncExitStack() as stack:
        fakes = [
            await stack.enter_async_context(FakeSglang(scenario(faults)))
            for faults in (FAULTS, FAULTS, BAD)
        ]
        reviving = asyncio.create_task(revive(fakes))
        try:
            yield fakes
        finally:
            reviving.cancel()
            await asyncio.gather(reviving, return_exceptions=True)


async def revive(fakes: list[FakeSglang]) -> None:
    while True:
        await asyncio.sleep(0.3)
        for fake in fakes:
            if fake._runner is None:
                await fake.revive()


async def run_on(fakes: list[FakeSglang], outputs: Outputs, rows: Path) -> str:
    words = [
        *attach(",".join(fake.url for fake in fakes)),
        "source=file",
        f"source.path={rows}",
        "client.concurrency=32",
        "client.request_timeout_s=3",
        "client.retry.backoff_s=0.05",
        "canary.count=0",
        "breaker.max_rejected=0.8",  # a fifth of the good endpoints' answers is bad on purpose
    ]
    process = await asyncio.create_subprocess_exec(
        *outputs.command(*words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text, _ = await process.communicate()
    assert process.returncode == 0, text.decode()
    return text.decode()


async def chaos(outputs: Outputs, rows: Path) -> tuple[str, Counter[str]]:
    async with endpoints() as fakes:
        text = await run_on(fakes, outputs, rows)
        return text, sum((fake.struck for fake in fakes), Counter())


def expected(sample: Sample) -> list[int]:
    """What the scripted model says to this prompt."""
    sampling = {"max_new_tokens": sample.requested_max_new_tokens, "stop_token_ids": [1257, 1262]}
    return output_for(scenario([]), sample.input_ids, sample.k, sampling)[0]


def test_chaos(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path / "outputs")
    text, struck = asyncio.run(chaos(outputs, prompt_file(tmp_path / "rows.jsonl", ROWS)))
    (run,) = find_runs(outputs.path)
    counts = run.read().counts
    sys.stdout.write(f"{text[-1500:]}\n{struck}\n")

    check_books(run, counts)
    check_samples(run, counts)
    check_endpoints(run)
    assert set(struck) >= {*RETRIED, *REJECTED, *HARMLESS, "slow", "hang", "die"}
    assert {kind for kind, _ in ERRORS} <= set(struck)
    assert outputs.tool("verify", "latest", "--full").code == 0


def check_books(run: RunDir, counts: Counts) -> None:
    """planned = ok + rejected + failed + skipped + pending, and each failure has its line."""
    assert counts.planned == ROWS
    assert counts.balanced
    assert counts.pending == 0
    failures = [json.loads(line) for line in run.failures.read_text().splitlines()]
    assert len({failure["sample_id"] for failure in failures}) == counts.failed
    assert all(failure["reason"] for failure in failures)
    assert counts.ok > ROWS * 0.8


def check_samples(run: RunDir, counts: Counts) -> None:
    """One current sample per id; those that were accepted are what the model said."""
    rejected = {j.sample_id for j in read_judgements(run, "online") if j.rejected}
    seen: set[str] = set()
    for sample in read_samples(run):
        assert sample.sample_id not in seen
        seen.add(sample.sample_id)
        if sample.sample_id not in rejected:
            assert sample.output_ids == expected(sample), sample.sample_id
    assert len(seen) == counts.ok + counts.rejected
    assert len(rejected) == counts.rejected > 0


def check_endpoints(run: RunDir) -> None:
    """Every request is accounted for, and the bad endpoint was left alone for most of the run."""
    stats = json.loads((run.attempt(1) / "endpoints.json").read_text())
    assert len(stats) == 3
    for one in stats:
        assert one["outstanding"] == 0
        assert one["sent"] == one["answered"] + one["given_up"] + sum(one["faults"].values())
    *good, bad = stats
    assert bad["answered"] == 0
    assert bad["set_aside"] > 1
    assert bad["sent"] < min(one["sent"] for one in good) / 2
