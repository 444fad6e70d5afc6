"""Small but real run directories: shards by ShardWriter, the bundled model's own tokenizer."""

import io
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from tokenizers import Tokenizer

import runner.runs
from runner.ledger import PartRequest, PlanRequest, sample_keying
from runner.records import (
    Counts,
    Failure,
    JudgedVerdict,
    Judgement,
    ModeProfile,
    Outcome,
    PlannedSample,
    Prompt,
    RunStatus,
    Sample,
    TokenProfile,
    ToolMarkers,
)
from runner.rundir import RunDir, RunState, Tokens, append_line, replace_file
from runner.segments import lengths_of
from runner.shards import ShardWriter

ASSETS = Path(runner.runs.__file__).parents[1] / "assets" / "tiny_reasoner"
TOKENIZER = Tokenizer.from_file(str(ASSETS / "tokenizer.json"))
SPECIAL = {token: one.content for token, one in TOKENIZER.get_added_tokens_decoder().items()}
ID_OF = {text: token for token, text in SPECIAL.items()}
THINK, END_THINK, IM_END = ID_OF["<think>"], ID_OF["</think>"], ID_OF["<|im_end|>"]
MAX_U64 = 2**64 - 1

PROFILE = TokenProfile(
    stop_ids=[IM_END],
    think_open=THINK,
    think_close=END_THINK,
    tools=ToolMarkers(
        section_begin=ID_OF["<|tool_calls_section_begin|>"],
        call_begin=ID_OF["<|tool_call_begin|>"],
        argument_begin=ID_OF["<|tool_call_argument_begin|>"],
        call_end=ID_OF["<|tool_call_end|>"],
        section_end=ID_OF["<|tool_calls_section_end|>"],
    ),
    assigned=[(0, TOKENIZER.get_vocab_size())],
    vocab_padded=1280,
    special_tokens=SPECIAL,
    modes={
        "thinking": ModeProfile(template_kwargs={}, generation_prompt=[THINK], think="open"),
        "instant": ModeProfile(template_kwargs={}, generation_prompt=[END_THINK], think="closed"),
    },
    template_sha256="0" * 64,
    tokenizer_sha256="0" * 64,
)


def ids(text: str) -> list[int]:
    """Ids of a text; special tokens are recognised in it."""
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


def prompt_ids(question: str, mode: str = "thinking") -> list[int]:
    start = "<think>" if mode == "thinking" else "</think>"
    return ids(
        f"<|im_user|>user<|im_middle|>{question}<|im_end|><|im_assistant|>assistant<|im_middle|>{start}"
    )


def hash_of(row: int) -> str:
    return f"{row + 1:064x}"[::-1]


def failing(reason: str, severity: str = "flag", detail: str = "") -> JudgedVerdict:
    return JudgedVerdict(outcome=Outcome.FAIL, reason=reason, severity=severity, detail=detail)


PASSING = JudgedVerdict(outcome=Outcome.PASS)


@dataclass
class Spec:
    """One planned sample, and what became of it. `output` is text with special tokens in it."""

    row: int
    output: str = "Two and two.</think>It is 4.<|im_end|>"
    category: str = "B4"
    question: str = "What is 2+2?"
    mode: str = "thinking"
    finish: str = "stop"
    max_new_tokens: int = 768
    verdicts: dict[str, JudgedVerdict] = field(default_factory=lambda: {"contract": PASSING})
    state: str = "done"  # done | pending | failed | skipped | unjudged
    try_: int = 1
    changes: dict[str, object] = field(default_factory=dict)

    @property
    def sample_id(self) -> str:
        return f"{self.category}-{self.row}-0"

    def planned(self) -> PlannedSample:
        skipped = self.state == "skipped"
        return PlannedSample(
            sample_id=self.sample_id,
            prompt=self.row,
            prompt_hash=hash_of(self.row),
            category=self.category,
            row=self.row,
            k=0,
            prompt_tokens=len(prompt_ids(self.question, self.mode)),
            skip="over_context: 9,000 prompt tokens" if skipped else "",
        )

    def sample(self) -> Sample:
        output, inputs = ids(self.output), prompt_ids(self.question, self.mode)
        sample = Sample(
            run_id="r",
            sample_id=self.sample_id,
            category=self.category,
            source="",
            row=self.row,
            turn=0,
            k=0,
            try_=self.try_,
            prompt_hash=hash_of(self.row),
            mode=self.mode,
            sampling_digest="d",
            input_ids=inputs,
            output_ids=output,
            finish=self.finish,
            matched_token=output[-1] if self.finish == "stop" and output else -1,
            matched_text="",
            finish_length=len(output) if self.finish == "length" else -1,
            requested_max_new_tokens=self.max_new_tokens,
            prompt_echo="same",
            prompt_tokens=len(inputs),
            completion_tokens=len(output),
            cached_tokens=0,
            retractions=0,
            weight_version="",
            endpoint="http://127.0.0.1:1",
            launch=1,
            attempt=1,
            sent_at=1.0,
            finished_at=2.0,
            latency_s=1.0,
        )
        return msgspec.structs.replace(sample, **self.changes)

    def judgement(self) -> Judgement:
        sample = self.sample()
        lengths = lengths_of(sample.output_ids, PROFILE, PROFILE.modes[self.mode])
        return Judgement(
            sample_id=self.sample_id,
            prompt_hash=sample.prompt_hash,
            category=self.category,
            try_=self.try_,
            finish=sample.finish,
            prompt_tokens=len(sample.input_ids),
            output_tokens=len(sample.output_ids),
            reasoning_tokens=lengths.reasoning,
            answer_tokens=lengths.answer,
            tool_call_tokens=lengths.tool_call,
            rejected=any(v.severity == "reject" for v in self.verdicts.values()),
            verdicts=self.verdicts,
        )


def counts_of(specs: Iterable[Spec]) -> Counts:
    latest = {spec.sample_id: spec for spec in specs}.values()
    states = [spec.state for spec in latest]
    rejected = sum(s.state == "done" and s.judgement().rejected for s in latest)
    return Counts(
        planned=len(states),
        ok=states.count("done") - rejected,
        rejected=rejected,
        failed=states.count("failed"),
        skipped=states.count("skipped"),
        pending=states.count("pending") + states.count("unjudged"),
    )


def append(folder: Path, records: Iterable[msgspec.Struct], *, keying=sample_keying) -> None:
    """One more sealed shard."""
    with ShardWriter(folder, keying=keying, fsync=False, linger_s=0.0) as writer:
        for record in records:
            writer.put(msgspec.json.encode(record))


def write_plan(run: RunDir, specs: list[Spec]) -> None:
    planned = list({spec.sample_id: spec.planned() for spec in specs}.values())
    append(run.plan, planned)
    parts = {
        name: PartRequest(fingerprint="f", rows=10, count=None, n=1, threshold=MAX_U64)
        for name in sorted({spec.category for spec in specs})
    }
    request = PlanRequest(seed=42, parts=parts)
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    prompts = [
        Prompt(
            prompt_hash=hash_of(spec.row),
            category=spec.category,
            row=spec.row,
            messages=[{"role": "user", "content": spec.question}],
        )
        for spec in specs
    ]
    append(run.prompts, prompts, keying=lambda line: ("", 0))


def write_tokenizer(run: RunDir) -> None:
    run.tokenizer.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(ASSETS / name, run.tokenizer / name)
    run.profile_json.write_bytes(msgspec.json.encode(PROFILE))


def state_of(specs: list[Spec], name: str, **changes: object) -> RunState:
    done = [spec.sample() for spec in specs if spec.state == "done"]
    state = RunState(
        run_id=name,
        status=RunStatus.DONE,
        counts=counts_of(specs),
        tokens=Tokens(
            prompt=sum(len(s.input_ids) for s in done), output=sum(len(s.output_ids) for s in done)
        ),
        generate_s=10.0,
        generate_tokens=sum(len(s.output_ids) for s in done),
        attempts=1,
        launches=1,
        host=socket.gethostname(),
        pid=os.getpid(),
        heartbeat=time.time(),
        created_at=time.time() - 3700,
        names={
            "model": "tiny_reasoner",
            "category": "B4",
            "mode": "thinking",
            "sampling": "greedy",
        },
    )
    return msgspec.structs.replace(state, **changes)


MakeRun = Callable[..., RunDir]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Build a run from specs; `state_changes` go into run.json, None leaves run.json out."""

    def make(
        specs: list[Spec],
        name: str = "tiny_reasoner-B4-thinking-greedy-1f6cad1c",
        *,
        task: str = "main",
        plan: bool = True,
        run_json: bool = True,
        **state_changes: object,
    ) -> RunDir:
        run = RunDir(tmp_path / "outputs" / task / name)
        run.path.mkdir(parents=True)
        if plan:
            write_plan(run, specs)
        write_tokenizer(run)
        append(run.samples, (s.sample() for s in specs if s.state in ("done", "unjudged")))
        append(run.verdicts("online"), (s.judgement() for s in specs if s.state == "done"))
        for spec in specs:
            if spec.state == "failed":
                append_line(run.failures, failure_of(spec))
        if run_json:
            run.write(state_of(specs, name, **state_changes))
        return run

    return make


def failure_of(spec: Spec) -> Failure:
    return Failure(
        sample_id=spec.sample_id,
        prompt_hash=hash_of(spec.row),
        category=spec.category,
        kind="failed",
        reason="unparsable",
        detail="the answer was no JSON",
        requests=4,
    )


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


RunCommand = Callable[..., Ran]


@pytest.fixture
def runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Run a command in this process, its output not on a terminal."""

    def call(*argv: str) -> Ran:
        outputs = ["--outputs", str(tmp_path / "outputs")]
        try:
            code = runner.runs.main([argv[0], *outputs, *argv[1:]])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def terminal(width: int = 100) -> Console:
    """A console that believes it is a terminal and keeps what is written."""
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )


def written(screen: Console) -> str:
    file = screen.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def unstyled(screen: Console) -> str:
    """What was written, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", written(screen))


MIXED = [
    Spec(0),
    Spec(1, output="Long thought " * 40 + "</think>Yes.<|im_end|>"),
    Spec(
        2,
        output="I think so",
        finish="length",
        max_new_tokens=len(ids("I think so")),
        verdicts={"finish": failing("length_in_think", detail="no </think>"), "contract": PASSING},
    ),
    Spec(
        3,
        output="x</think><|im_end|>",
        verdicts={"ids": failing("unassigned", "reject", "id 1300 at 3")},
    ),
    Spec(4, category="B5", output="Hm.</think>Good day.<|im_end|>"),
    Spec(5, state="failed"),
    Spec(6, state="skipped"),
    Spec(7, state="pending"),
]
"""Every kind of sample there is, in two categories."""
