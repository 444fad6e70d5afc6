"""How long the report of a large run takes and how big it is.

    python benchmarks/report.py [--samples 88000]

The run directory is made here: the bundled tokenizer, eight categories, texts of some hundred
tokens with a few that are very long or hostile, a verdict on each.
"""

import argparse
import functools
import resource
import tempfile
import time
from pathlib import Path

import msgspec

from runner.ledger import PartRequest, PlanRequest, sample_keying
from runner.records import JudgedVerdict, Outcome
from runner.report import REPORT_NAME, make_report
from runner.rundir import RunDir, replace_file
from runner.shards import ShardWriter
from tests.runs import conftest
from tests.runs.conftest import MAX_U64, Spec, state_of, write_tokenizer

conftest.ids = functools.cache(conftest.ids)  # the same texts come again and again

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J" * 400
REASONS = (
    ("thinking", "no_close", "flag"),
    ("finish", "length", "flag"),
    ("vocab", "odd", "reject"),
)


def spec_of(row: int) -> Spec:
    verdicts = {"contract": JudgedVerdict(outcome=Outcome.PASS)}
    if row % 9 == 0:
        validator, reason, severity = REASONS[row // 9 % 3]
        verdicts[validator] = JudgedVerdict(outcome=Outcome.FAIL, reason=reason, severity=severity)
    text = HOSTILE if row % 5000 == 0 else "and some words " * (1 + row % 40)
    output = f"{text}</think>It is {row % 97}.<|im_end|>"
    return Spec(row, output=output, category=f"B{row % 8 + 1}", verdicts=verdicts)


def make(path: Path, samples: int) -> RunDir:
    run = RunDir(path)
    run.path.mkdir(parents=True)
    write_tokenizer(run)
    folders = (run.plan, run.samples, run.verdicts("online"))
    writers = [ShardWriter(folder, keying=sample_keying, fsync=False) for folder in folders]
    for writer in writers:
        writer.__enter__()
    for row in range(samples):
        spec = spec_of(row)
        records = (spec.planned(), spec.sample(), spec.judgement())
        for writer, record in zip(writers, records, strict=True):
            writer.put(msgspec.json.encode(record))
    for writer in writers:
        writer.__exit__(None, None, None)
    part = PartRequest(fingerprint="f", rows=samples, count=None, n=1, threshold=MAX_U64)
    request = PlanRequest(seed=42, parts={f"B{n}": part for n in range(1, 9)})
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    run.write(state_of([], path.name))
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=88_000)
    samples = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as folder:
        run = make(Path(folder) / "outputs" / "main" / "tiny-all-thinking-greedy-00000000", samples)
        begun, cpu = time.perf_counter(), time.process_time()
        data = make_report(run)
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        size = (run.path / REPORT_NAME).stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{samples:,} samples: {took:.1f} s ({cpu:.1f} s of CPU), {size / 1e6:.2f} MB")
    print(f"{len(data.samples)} shown, {data.facts.counts}, peak memory {peak:,.0f} MB")


if __name__ == "__main__":
    main()
