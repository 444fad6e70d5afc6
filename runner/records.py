"""The plain records that travel through a run and onto disk. Data only: no input or output here.

Token ids are Python ints in lists; ids are the truth and text is only ever a view of them.
Records that reach a shard have a fixed set of keys and never hold null: an int that the engine
did not tell is -1 and a string that it did not tell is "". That keeps the type of every column the
same in every shard for readers that infer types (Polars, DuckDB, Arrow), and "not told" apart from
0. See docs/decisions/0003-no-nulls-in-shards.md.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from runner.tokenprofile import ChannelMarkers as ChannelMarkers
from runner.tokenprofile import ModeProfile as ModeProfile
from runner.tokenprofile import TokenProfile as TokenProfile
from runner.tokenprofile import ToolMarkers as ToolMarkers

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SAMPLE_SCHEMA = 1
"""Version of the `Sample` record. A run continues in the schema that it began with."""

NOT_TOLD = -1
"""An integer that the engine did not report. Never 0: 0 is a measurement."""

Finish = Literal["stop", "length"]
Echo = Literal["same", "absent"]


class Outcome(StrEnum):
    """What one validator found. `SKIP`: does not apply. `ERROR`: the validator itself broke."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class Severity(StrEnum):
    """What a failed check means: `REJECT` the pipeline or engine altered the sample, `FLAG` the
    model's own odd behaviour (export decides), `INFO` worth counting."""

    REJECT = "reject"
    FLAG = "flag"
    INFO = "info"


class RunStatus(StrEnum):
    """The state of a run as `run.json` tells it. `RUNNING` with a dead pid means: was killed."""

    RUNNING = "running"
    DONE = "done"
    GATE_FAILED = "gate_failed"
    STOPPED_BAD_DATA = "stopped_bad_data"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Record(msgspec.Struct, frozen=True):
    """Base of all records: immutable, compared by value. (msgspec does not inherit `kw_only`.)"""


class Prompt(Record, frozen=True, kw_only=True):
    """One input row (inspect_ai calls this a Sample). `answer` is a reference answer or ""."""

    prompt_hash: str
    category: str
    source: str = ""
    row: int
    turn: int = 0
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    answer: str = ""


class PlannedSample(Record, frozen=True, kw_only=True):
    """One sample that the run owes. `prompt` is the ordinal of its `Prompt` under prompts/, -1 for
    a row that could not be made one (then `skip` says why)."""

    sample_id: str
    prompt: int
    prompt_hash: str
    category: str
    source: str = ""
    row: int
    turn: int = 0
    k: int
    prompt_tokens: int
    skip: str = ""
    """Why this one is never sent ("" = it is sent); counted as skipped."""


class OwedSample(PlannedSample, frozen=True, kw_only=True, rename={"try_": "try"}):
    """A planned sample that is to be asked for: as which try (above 0 where an earlier sample was
    superseded), and how many requests earlier attempts have spent on it."""

    try_: int = 0
    asked: int = 0


class SamplingParams(Record, frozen=True, kw_only=True):
    """Sampling parameters under SGLang's own names; every one is sent explicitly with each request.

    `temperature` 0 is greedy; `top_k` -1 means all; `stop_token_ids` come from the token profile.
    """

    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    min_new_tokens: int
    ignore_eos: bool
    stop_token_ids: list[int]


class Completion(Record, frozen=True, kw_only=True):
    """What an engine answered for one prompt, in one shape for every engine.

    `output_ids` holds the matched stop token, as SGLang and llama.cpp return it.
    """

    rid: str
    output_ids: list[int]
    finish: Finish
    matched_token: int = NOT_TOLD
    matched_text: str = ""
    finish_length: int = NOT_TOLD
    prompt_tokens: int
    completion_tokens: int
    prompt_echo: Echo = "absent"
    cached_tokens: int = NOT_TOLD
    retractions: int = NOT_TOLD
    weight_version: str = ""
    first_token_s: float = NOT_TOLD
    """From the request's arrival at the server to its first token."""


class Sample(Record, frozen=True, kw_only=True, rename={"try_": "try"}):
    """One generation: the ids that were sent, the ids that came back, and how it finished."""

    schema: int = SAMPLE_SCHEMA
    run_id: str
    sample_id: str
    category: str
    source: str
    row: int
    turn: int
    k: int
    try_: int
    prompt_hash: str
    mode: str
    sampling_digest: str
    input_ids: list[int]
    output_ids: list[int]
    finish: Finish
    matched_token: int
    matched_text: str
    finish_length: int
    requested_max_new_tokens: int
    prompt_echo: Echo
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    retractions: int
    weight_version: str
    endpoint: str
    launch: int
    attempt: int
    sent_at: float
    finished_at: float
    latency_s: float


class Failure(Record, frozen=True, kw_only=True, rename={"try_": "try"}):
    """A line of failures.jsonl: a sample that got no usable answer in one attempt, or was skipped.

    `kind` is "failed" (asked, no usable answer) or "skipped" (never asked). `requests` counts those
    of this attempt; `permanent` means that asking again cannot help. `raw` is the bounded text of
    the last answer.
    """

    sample_id: str
    prompt_hash: str
    category: str
    kind: Literal["failed", "skipped"]
    reason: str
    detail: str = ""
    requests: int = 0
    permanent: bool = False
    try_: int = 0
    attempt: int = 0
    at: float = 0.0
    raw: str = ""


class Verdict(Record, frozen=True, kw_only=True):
    """What one validator says of one sample. `reason` is from its declared list, "" on a pass.

    `score` is a share between 0 and 1 of `weight` things (tool calls, answers); None: not scored.
    """

    outcome: Outcome
    reason: str = ""
    score: float | None = None
    weight: int = 1
    detail: str = ""


class JudgedVerdict(Record, frozen=True, kw_only=True):
    """A `Verdict` with the severity that the config gives its reason ("" unless it failed)."""

    outcome: Outcome
    reason: str = ""
    severity: str = ""
    score: float | None = None
    weight: int = 1
    detail: str = ""


class Judgement(Record, frozen=True, kw_only=True, rename={"try_": "try"}):
    """All verdicts of one validator set on one sample: a line of verdicts/<set>/.

    It also carries the sample's lengths, so that figures are folded from verdicts alone, without
    reading the samples again. `output_hash` is a hash of the output's ids, so that equal outputs
    are found the same way.
    """

    sample_id: str
    prompt_hash: str
    category: str
    try_: int
    finish: Finish
    prompt_tokens: int
    output_tokens: int
    reasoning_tokens: int
    answer_tokens: int
    tool_call_tokens: int
    rejected: bool
    verdicts: dict[str, JudgedVerdict]
    output_hash: str = ""


class SetFinding(Record, frozen=True, kw_only=True):
    """What a set-level validator found over all samples: one reason in one category.

    `share` is of the category's samples; `examples` are ids of some of them.
    """

    validator: str
    reason: str
    severity: str = ""
    category: str
    samples: int
    share: float
    detail: str = ""
    examples: list[str] = []


class Kind(StrEnum):
    """What a stretch of ids is."""

    PROMPT = "prompt"
    REASONING = "reasoning"
    ANSWER = "answer"
    TOOL_CALL = "tool_call"
    SPECIAL = "special"


class Segment(NamedTuple):
    """The half-open range [start, end) of a list of ids."""

    kind: Kind
    start: int
    end: int


class IdKind:
    """Bits of `SampleContext.kinds`: what the token profile says of an id."""

    OUTSIDE = 1
    """The output layer has no such row."""
    UNASSIGNED = 2
    FORBIDDEN = 4
    STOP = 8
    SPECIAL = 16


class Expected(Record, frozen=True, kw_only=True):
    """What the config expects of one category.

    `rates` maps a reason code to the share of samples that may have it; `shortest` is the fewest
    output tokens of a whole answer, `output_tokens` their mean (None: nothing is expected).
    """

    rates: dict[str, float] = {}
    shortest: int = 1
    output_tokens: int | None = None


class SampleContext(Record, frozen=True, kw_only=True):
    """What a validator may know beside the sample itself; made once and shared by all of them.

    `output` are the output ids (int64, shape (n,), read-only), `kinds` their `IdKind` bits (uint8,
    shape (n,)), `specials` the positions of special ids among them, `segments` the stretches of
    reasoning, answer and tool calls; `input_kinds` are the bits of the prompt's ids.
    `weight_versions` are those that the run may have (empty: the server tells none). `prompt`,
    `decode` and `encode` are None where whoever judges does not have them, the last two also for an
    output with ids that have no text: skip then.
    """

    profile: TokenProfile
    mode: ModeProfile
    output: "npt.NDArray[np.int64]"
    kinds: "npt.NDArray[np.uint8]"
    specials: list[int]
    segments: list[Segment]
    input_kinds: "npt.NDArray[np.uint8]"
    prompt: Prompt | None = None
    expected: Expected = Expected()
    weight_versions: frozenset[str] = frozenset()
    decode: Callable[[list[int]], str] | None = None
    encode: Callable[[str], list[int]] | None = None


class Counts(Record, frozen=True, kw_only=True):
    """The accounting line: `planned = ok + rejected + failed + skipped + pending`, always."""

    planned: int = 0
    ok: int = 0
    rejected: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        parts = self.ok + self.rejected + self.failed + self.skipped + self.pending
        return self.planned == parts
