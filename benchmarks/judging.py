"""What judging costs: tokens per CPU second, online (one sample after the other in this process)
and offline (`runs validate`, from shards, in parallel processes), and what set-level checks hold.

    python -m benchmarks.judging [--samples 1500] [--mean 2600] [--processes 2] [--text]

The samples are made: random ids in the shape of a reasoning model's output (a long reasoning, a
close, an answer, some tool calls, some cut, some loops) under the bundled model's profile. The
default set without `text` and `answer`, whose cost is that of decoding and of mathematics; --text
takes them in. What is printed last is the time that 228 M tokens would take on 2 cores.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import msgspec
import yaml

from runner.cli import CONF
from runner.config import ModelMode
from runner.ledger import PartRequest, PlanRequest, sample_keying
from runner.modelfiles import ASSETS
from runner.plugins import load_validators, override_validators
from runner.profile import facts_of, probe
from runner.records import NOT_TOLD, PlannedSample, Prompt, Sample
from runner.rejudge import JudgeSettings, rejudge
from runner.render import load_tokenizer
from runner.rundir import RunDir, replace_file
from runner.shards import ShardWriter
from runner.validate import Judge

GOAL_TOKENS_PER_CPU_S = 3e6
WHOLE_JOB_TOKENS = 228e6
CALLS_EVERY = 4
"""One prompt of so many offers a tool, and its answer calls it."""
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["at"],
        },
    },
}
MODES = {
    "thinking": ModelMode(template_kwargs={"thinking": True}),
    "instant": ModelMode(template_kwargs={"thinking": False}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--mean", type=int, default=2600)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--text", action="store_true")
    arguments = parser.parse_args()
    dropped = [] if arguments.text else ["~validators.text", "~validators.answer"]
    entries = override_validators({}, ["validators=default", *dropped], CONF)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder) / "run")
        samples, prompts = make_run(run, arguments.samples, arguments.mean, entries)
        online(run, samples, prompts, entries)
        offline(run, entries, arguments.processes)


def make_run(
    run: RunDir, count: int, mean: int, entries: dict
) -> tuple[list[Sample], list[Prompt]]:
    rng = random.Random(1)
    tokenizer = load_tokenizer(ASSETS / "tiny_reasoner")
    profile = probe(tokenizer, facts_of(ASSETS / "tiny_reasoner"), MODES, {})
    tokenizer.save(run.tokenizer)
    replace_file(run.profile_json, msgspec.json.encode(profile))
    prompts = [prompt_of(row) for row in range(count)]
    plain = [i for i in range(profile.vocab_assigned) if i not in profile.special_tokens]
    call = call_of(profile, tokenizer)
    samples = [
        sample_of(
            prompt,
            rng,
            mean,
            profile,
            plain,
            tokenizer.render(prompt.messages, prompt.tools, {}),
            call if prompt.tools else [],
        )
        for prompt in prompts
    ]
    for folder, records in ((run.samples, samples), (run.prompts, prompts)):
        with ShardWriter(folder, keying=sample_keying if records is samples else no_key) as writer:
            for record in records:
                writer.put(msgspec.json.encode(record))
    with ShardWriter(run.plan, keying=sample_keying) as writer:
        for number, sample in enumerate(samples):
            writer.put(msgspec.json.encode(planned_of(sample, number)))
    part = PartRequest(fingerprint="", rows=count, count=None, n=1, threshold=2**64 - 1)
    request = PlanRequest(seed=1, parts={"B4": part})
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    config = {"category": {"parts": {"B4": None}}, "validators": entries,
              "mode": {"name": "thinking"}, "model": {}}  # fmt: skip
    replace_file(run.config_yaml, yaml.safe_dump(config).encode())
    return samples, prompts


def no_key(_line: bytes) -> tuple[str, int]:
    return "", 0


def prompt_of(row: int) -> Prompt:
    return Prompt(
        prompt_hash=f"{row:032x}",
        category="B4",
        row=row,
        messages=[{"role": "user", "content": f"Why is {row} what it is? " * 20}],
        tools=[LOOK] if row % CALLS_EVERY == 0 else [],
    )


def call_of(profile, tokenizer) -> list[int]:
    """A section with one call."""
    tools, encode = profile.tools, tokenizer.encode
    name, arguments = encode("functions.look:0"), encode('{"at": "the sky", "times": 2}')
    head = [tools.section_begin, tools.call_begin, *name, tools.argument_begin]
    return [*head, *arguments, tools.call_end, tools.section_end]


def planned_of(sample: Sample, ordinal: int) -> PlannedSample:
    return PlannedSample(
        sample_id=sample.sample_id,
        prompt=ordinal,
        prompt_hash=sample.prompt_hash,
        category="B4",
        row=sample.row,
        k=0,
        prompt_tokens=len(sample.input_ids),
    )


def sample_of(prompt, rng, mean, profile, plain, input_ids, call) -> Sample:
    size = max(20, int(rng.gauss(mean, mean / 3)))
    body = rng.choices(plain, k=size)
    if rng.random() < 0.05:
        body[size // 2 :] = (body[:70] * size)[: size - size // 2]
    body[size * 3 // 4] = profile.think_close
    cut = rng.random() < 0.3
    output = body if cut else [*body, *call, profile.stop_ids[-1]]
    return Sample(
        run_id="r", sample_id=f"B4-{prompt.row}-0", category="B4", source="", row=prompt.row,
        turn=0, k=0, try_=0, prompt_hash=prompt.prompt_hash, mode="thinking", sampling_digest="",
        input_ids=input_ids, output_ids=output, finish="length" if cut else "stop",
        matched_token=NOT_TOLD if cut else output[-1], matched_text="",
        finish_length=len(output) if cut else NOT_TOLD,
        requested_max_new_tokens=len(output) if cut else 10**6, prompt_echo="same",
        prompt_tokens=len(input_ids), completion_tokens=len(output), cached_tokens=0,
        retractions=0, weight_version="", endpoint="e", launch=1, attempt=1, sent_at=0.0,
        finished_at=0.0, latency_s=0.0,
    )  # fmt: skip


def online(run: RunDir, samples: list[Sample], prompts: list[Prompt], entries: dict) -> None:
    from runner.rejudge import open_judge, read_settings

    judge = open_judge(read_settings(run, entries))
    tokens = sum(len(s.output_ids) for s in samples)
    for one in load_validators(entries):
        alone = Judge([one], judge._profile, judge._mode, tokenizer=judge._tokenizer)
        if one.per_sample:
            seconds = cpu_of(lambda alone=alone: judge_all(alone, samples, prompts))
            print(f"  {one.name:<14} {seconds / tokens * 1e9:6.1f} ns/token, with the context")
    seconds = cpu_of(lambda: judge_all(judge, samples, prompts))
    report("online", tokens, seconds)


def judge_all(judge: Judge, samples: list[Sample], prompts: list[Prompt]) -> None:
    for sample, prompt in zip(samples, prompts, strict=True):
        judge.judge(sample, prompt)


def cpu_of(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def report(what: str, tokens: int, cpu_s: float) -> None:
    rate = tokens / cpu_s
    goal = "meets" if rate >= GOAL_TOKENS_PER_CPU_S else "MISSES"
    print(f"{what}: {tokens:,} tokens in {cpu_s:.2f} CPU s: {rate / 1e6:.2f} M/s ({goal} 3 M/s)")


def offline(run: RunDir, entries: dict, processes: int) -> None:
    from runner.rejudge import open_judge, read_settings

    settings: JudgeSettings = read_settings(run, entries)
    worker_cpu = cpu_of(lambda: rejudge(settings, "one", processes=1)) - cpu_of(
        lambda: open_judge(settings)
    )
    start = time.perf_counter()
    made = rejudge(settings, "many", processes=processes)
    wall = time.perf_counter() - start
    report("offline, one process", made.tokens, worker_cpu)
    print(f"offline, {processes} processes: {wall:.1f} s of wall clock, their start included")
    whole_s = WHOLE_JOB_TOKENS / made.tokens * worker_cpu / 2
    print(f"228 M tokens on 2 cores, by the CPU figure: {whole_s:.0f} s")
    print("duplicates hold 16 bytes a sample; the plan's index 16, the samples' 32")


if __name__ == "__main__":
    main()
