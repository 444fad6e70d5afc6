"""What an export costs: tokens per CPU second and peak memory, on a made-up run.

    python -m benchmarks.export                      # 20,000 samples of 2,600 tokens, all formats
    python -m benchmarks.export --samples 1000000 --tokens 120 --to pretokenized

Ids are drawn from 160,000 with a long tail, so that they are as long in JSON as those of a large
model. The run is made once and kept under --work. Each export runs in a process of its own; CPU
seconds are user and system together, of the whole process (imports included), memory is its peak.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from runner.export import Policy, Request, RunInput, export
from runner.keying import sample_keying
from runner.records import ModeProfile, TokenProfile
from runner.rundir import RunDir, replace_file
from runner.selection import MAX_U64, PartRequest, PlanRequest
from runner.shards import ShardWriter

VOCAB = 160_000
PROFILE = TokenProfile(
    stop_ids=[1],
    assigned=[(0, VOCAB)],
    vocab_padded=VOCAB,
    special_tokens={1: "<stop>"},
    modes={"thinking": ModeProfile(template_kwargs={}, generation_prompt=[], think="none")},
    template_sha256="0" * 64,
    tokenizer_sha256="0" * 64,
)
POOL = 400
"""Different prompts and outputs; ids are not looked at, so more would measure nothing else."""
SAMPLE = (
    '{{"schema":1,"run_id":"bench","sample_id":"B{c}-{n}-0","category":"B{c}","source":"","row":{n},'
    '"turn":0,"k":0,"try":0,"prompt_hash":"{h}","mode":"thinking","sampling_digest":"d",'
    '"input_ids":[{p}],"output_ids":[{o}],"finish":"stop","matched_token":1,"matched_text":"",'
    '"finish_length":-1,"requested_max_new_tokens":32768,"prompt_echo":"same","prompt_tokens":{lp},'
    '"completion_tokens":{lo},"cached_tokens":0,"retractions":0,"weight_version":"",'
    '"endpoint":"http://127.0.0.1:30000","launch":1,"attempt":1,"sent_at":1.0,"finished_at":2.0,'
    '"latency_s":1.0}}'
)
PASS = '{"outcome":"pass","reason":"","severity":"","score":null,"weight":1,"detail":""}'
CHECKS = (
    "contract prompt finish vocab thinking channels tool_calls degeneration text lengths answer"
)
JUDGEMENT = (
    '{{"sample_id":"B{c}-{n}-0","prompt_hash":"{h}","category":"B{c}","try":0,"finish":"stop",'
    '"prompt_tokens":{lp},"output_tokens":{lo},"reasoning_tokens":0,"answer_tokens":{lo},'
    '"tool_call_tokens":0,"rejected":false,"verdicts":{{'
    + ",".join(f'"{name}":{PASS}' for name in CHECKS.split()).replace("{", "{{").replace("}", "}}")
    + '}},"output_hash":"{h}"}}'
)
PLANNED = (
    '{{"sample_id":"B{c}-{n}-0","prompt":{n},"prompt_hash":"{h}","category":"B{c}","source":"",'
    '"row":{n},"turn":0,"k":0,"prompt_tokens":{lp},"skip":""}}'
)


def make_run(folder: Path, samples: int, tokens: int) -> RunDir:
    """A run directory with `samples` of about `tokens` each, a tenth of them prompt."""
    run = RunDir(folder)
    if (run.plan / "request.json").is_file():
        return run
    random = np.random.default_rng(7)
    prompts, outputs = _pool(random, tokens // 10), _pool(random, tokens - tokens // 10)
    started = time.monotonic()
    for directory, form in (
        (run.samples, SAMPLE),
        (run.verdicts("online"), JUDGEMENT),
        (run.plan, PLANNED),
    ):
        with ShardWriter(directory, keying=sample_keying, fsync=False) as writer:
            for line in _lines(form, samples, prompts, outputs):
                writer.put(line)
                while writer.backlog_bytes > 64 * 2**20:
                    time.sleep(0.01)
    part = PartRequest(fingerprint="f", rows=samples, count=None, n=1, threshold=MAX_U64)
    request = PlanRequest(seed=1, parts={f"B{c}": part for c in range(1, 9)})
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    print(f"made {samples:,} samples in {time.monotonic() - started:.0f} s")
    return run


def _pool(random: np.random.Generator, mean: int) -> list[tuple[str, int]]:
    """Id lists as JSON text with their lengths, from half to one and a half times the mean."""
    found = []
    for _ in range(POOL):
        size = int(random.integers(mean // 2, mean * 3 // 2 + 1)) or 1
        ids = (VOCAB * random.random(size) ** 4).astype(int)
        found.append((",".join(map(str, ids.tolist())), size))
    return found


def _lines(form: str, samples: int, prompts: list, outputs: list) -> Iterator[bytes]:
    for n in range(samples):
        (p, lp), (o, lo) = prompts[n % POOL], outputs[n * 7 % POOL]
        h = f"{(n * 0x9E3779B97F4A7C15) % 2**64:016x}{n:016x}"
        yield form.format(c=n % 8 + 1, n=n, h=h, p=p, o=o, lp=lp, lo=lo).encode()


def measure(run: Path, out: Path, to: str, shuffle: bool) -> dict:
    """Export in this process; figures of the whole process."""
    given = RunInput(
        run=RunDir(run), name="bench", model="bench", verdict_set="online", profile=PROFILE
    )
    request = Request(to=to, policy=Policy(shuffle=shuffle))
    manifest = export([given], out, request, say=lambda text: None)
    used = resource.getrusage(resource.RUSAGE_SELF)
    totals = manifest.splits["train"]
    return {
        "samples": totals.samples,
        "tokens": totals.prompt_tokens + totals.supervised_tokens,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / (1024 if sys.platform == "linux" else 2**20),
        "bytes": sum(part.bytes for part in manifest.parts),
    }


def main() -> None:
    """Make the run, then measure each format in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--tokens", type=int, default=2_600, help="of a sample, on average")
    parser.add_argument("--to", nargs="*", default=["pretokenized", "parquet", "hf", "vocabulary"])
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("outputs/.benchmarks/export"))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        run, out, to = arguments.measure
        print(json.dumps(measure(Path(run), Path(out), to, arguments.shuffle)))
        return
    run = make_run(
        arguments.work / f"{arguments.samples}x{arguments.tokens}",
        arguments.samples,
        arguments.tokens,
    )
    print(f"{'format':<14}{'samples':>10}{'Mtok':>8}{'CPU s':>8}{'Mtok/CPU s':>12}{'peak MB':>9}")
    for to in arguments.to:
        report(run.path, arguments.work / f"out-{to}", to, arguments.shuffle)


def report(run: Path, out: Path, to: str, shuffle: bool) -> None:
    """One line of the table; what was exported is deleted again."""
    command = [sys.executable, "-m", "benchmarks.export", "--measure", str(run), str(out), to]
    done = subprocess.run(
        [*command, *(["--shuffle"] if shuffle else [])], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    mega = found["tokens"] / 1e6
    print(
        f"{to:<14}{found['samples']:>10,}{mega:>8.1f}{found['cpu_s']:>8.1f}"
        f"{mega / found['cpu_s']:>12.1f}{found['peak_mb']:>9.0f}",
        flush=True,
    )
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    out.rmdir()


if __name__ == "__main__":
    main()
