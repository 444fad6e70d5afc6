"""Every key that `conf/` may set, with its type and its default: Hydra composes against these.

Plain dataclasses, since structured configs need them; treated as frozen everywhere. What a value
may be is in `ranges`, what a change of it means for a run in `runner.identity`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING


class ServerKind(Enum):
    """How a server comes to be. `external`: somebody else started it."""

    llamacpp = "llamacpp"
    sglang = "sglang"
    external = "external"


class EngineKind(Enum):
    """Which protocol the server speaks; part of a run's identity, unlike how it was started."""

    llamacpp = "llamacpp"
    sglang = "sglang"


class SourceKind(Enum):
    """Which block of a part is read."""

    bundled = "bundled"
    hub = "hub"
    file = "file"
    custom = "custom"


class TurnPolicy(Enum):
    """Before which assistant turn a conversation is cut (runner.prompts.turns)."""

    last_user = "last_user"
    first_user = "first_user"
    each_assistant_turn = "each_assistant_turn"


class SpecialTokens(Enum):
    """What becomes of a control token's text inside a prompt's own texts (runner.escaping)."""

    refuse = "refuse"
    escape = "escape"
    allow = "allow"


class Duplicates(Enum):
    """What becomes of a prompt with the messages and tools of an earlier one."""

    keep = "keep"
    drop = "drop"


class TrackingKind(Enum):
    """Where metrics go beside the run directory."""

    mlflow = "mlflow"
    none = "none"


class IdentityKind(Enum):
    """`standard`: what changes the data. `full`: server flags and client settings too."""

    standard = "standard"
    full = "full"


class Prepare(Enum):
    """`only`: make the plan and its preflight, start nothing. `run`: the whole job."""

    run = "run"
    only = "only"


@dataclass
class RecommendedSampling:
    """What a model's makers recommend for one mode; `sampling=recommended` reads it."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_new_tokens: int = 512


@dataclass
class ModelMode:
    """One mode of a model: the template kwargs that select it, and its recommended sampling."""

    template_kwargs: dict[str, Any] = field(default_factory=dict)
    sampling: RecommendedSampling = field(default_factory=RecommendedSampling)


@dataclass
class Model:
    """A model: where it is, how long its context is, and which modes it has.

    `path` is a local folder (or `asset://NAME`, one bundled with the program, or `package://NAME`,
    a file folder inside an installed package); null means that `id` is fetched from the hub at
    `revision`. `gguf` is a file name inside `path` for llama.cpp. `launch_flags` are the flags with
    which its makers start SGLang; `server.flags` come after them and win.
    """

    name: str = MISSING
    id: str = MISSING
    revision: str | None = None
    path: str | None = None
    gguf: str | None = None
    context_length: int = MISSING
    trust_remote_code: bool = False
    default_mode: str = MISSING
    modes: dict[str, ModelMode] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)
    launch_flags: dict[str, Any] = field(default_factory=dict)


@dataclass
class Restart:
    """How often and how patiently a server that died is started again.

    `ladder`: flags for the starts after it died of memory, one rung more each time; a rung only
    lowers what is set, or sets what is not.
    """

    max_restarts: int = 5
    backoff_s: float = 2.0
    backoff_max_s: float = 300.0
    ladder: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Server:
    """A server: how it is started, or where it already runs.

    `flags` go to it verbatim under its own names (true = a bare flag, null or false = left out, a
    list = several values). `port` 0 takes a free one. `command` stands for the interpreter and
    module that start it; `stop_command` is run when it must end and ending `command` is not enough
    (a container).
    """

    name: str = MISSING
    kind: ServerKind = MISSING
    engine: EngineKind = MISSING
    host: str = "127.0.0.1"
    port: int = 0
    flags: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    command: list[str] | None = None
    stop_command: list[str] | None = None
    urls: list[str] = field(default_factory=list)
    ready_timeout_s: float = 3600.0
    stall_s: float = 900.0
    term_timeout_s: float = 30.0
    restart: Restart = field(default_factory=Restart)


@dataclass
class Mode:
    """Only a name; the model's config says what it means."""

    name: str = MISSING


@dataclass
class Sampling:
    """Sampling parameters under SGLang's own names; all of them are sent with every request."""

    name: str = MISSING
    max_new_tokens: int = MISSING
    temperature: float = MISSING
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    ignore_eos: bool = False


@dataclass
class BundledSource:
    """A prompt file inside `runner/assets/prompts/`."""

    file: str = MISSING


@dataclass
class Columns:
    """Which column holds what an adapter reads (its words: runner.prompts.adapt). "" = the usual
    column of that name, null = none. `id` is the data set's own name for a row."""

    messages: str | None = ""
    conversations: str | None = ""
    trajectory: str | None = ""
    chat: str | None = ""
    instruction: str | None = ""
    input: str | None = ""
    prompt: str | None = ""
    system: str | None = ""
    tools: str | None = ""
    answer: str | None = ""
    id: str | None = ""


@dataclass
class HubSource:
    """A data set on the Hugging Face hub, or a local folder that `datasets` can load.

    `revision` null: the newest commit, looked up at each start. `streaming` reads without keeping
    the set on disk, and then `first_rows` says how much of it (null: all, by the set's own
    metadata). `turns` (null: the part's) and `count` are for this source.
    """

    id: str = MISSING
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    streaming: bool = False
    first_rows: int | None = None
    adapter: str = "auto"
    columns: Columns = field(default_factory=Columns)
    turns: TurnPolicy | None = None
    licence: str = ""
    count: int | None = None


@dataclass
class FileSource:
    """A file, a glob of several, or a folder saved by `datasets`."""

    path: str | None = None
    adapter: str = "auto"
    columns: Columns = field(default_factory=Columns)


@dataclass
class Expected:
    """What is expected of a part, to compare with what comes; null: nothing is.

    `shortest` is the fewest tokens of a whole answer. `rates` maps a reason code to the share of
    samples that may have it: canary and breaker also stop a run whose answers leave it by far.
    """

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    truncated_share: float | None = None
    shortest: int = 1
    rates: dict[str, float] = field(default_factory=dict)


@dataclass
class Part:
    """One named prompt set of a category: what it reads from each kind of source, and how much.

    `count` null: the category's; null there: the hub block's, or all rows. `weight` is its share of
    `category.total`. `filters`: "level == easy", "score >= 0.8"; rows that do not pass are not
    there. `custom` is {_target_: CLASS, its arguments}. `max_prompt_tokens`: longer prompts are
    skipped. `budget_tokens`: output tokens after which nothing more of this part is sent.
    """

    title: str = ""
    bundled: BundledSource | None = None
    hub: HubSource | None = None
    file: FileSource = field(default_factory=FileSource)
    custom: Any = None
    count: int | None = None
    n: int | None = None
    weight: float = 1.0
    turns: TurnPolicy = TurnPolicy.last_user
    filters: list[str] = field(default_factory=list)
    max_prompt_tokens: int | None = None
    budget_tokens: int | None = None
    expected: Expected = field(default_factory=Expected)


@dataclass
class Category:
    """A named prompt set: one part, or a mix of several. `total`: rows over all parts, shared out
    by weight; without it each part takes `count` rows."""

    name: str = MISSING
    parts: dict[str, Part] = MISSING
    count: int | None = None
    total: int | None = None
    n: int = 1


@dataclass
class Source:
    """Which of a part's blocks is read. `path`, `adapter` and `columns` are for `kind: file`, and
    go before what the part's own `file` block says."""

    kind: SourceKind = MISSING
    path: str | None = None
    adapter: str | None = None
    columns: Columns = field(default_factory=Columns)


@dataclass
class Prompts:
    """How rows become prompts. `exclude`: files of texts or ids that must not be asked. `workers`:
    rendering processes (null: none for a fast tokenizer, some for a slow one)."""

    special_tokens: SpecialTokens = SpecialTokens.escape
    duplicates: Duplicates = Duplicates.keep
    exclude: list[str] = field(default_factory=list)
    workers: int | None = None


@dataclass
class Budget:
    """Output tokens of the whole run after which nothing more is sent (null: no limit)."""

    output_tokens: int | None = None


@dataclass
class Tracking:
    """Where a run is mirrored. `uri` null: a sqlite file under `paths.outputs`."""

    kind: TrackingKind = MISSING
    uri: str | None = None
    experiment: str = "rawtok"
    interval_s: float = 60.0
    flush_timeout_s: float = 20.0


@dataclass
class Retry:
    """How often one sample is asked for when an answer was unusable."""

    max_attempts: int = 4
    backoff_s: float = 0.5
    backoff_max_s: float = 30.0


@dataclass
class Auto:
    """`client.concurrency: auto`: it starts with `first` in flight, looks every `interval_s` and
    never goes beyond `most`."""

    first: int = 16
    most: int = 1024
    interval_s: float = 5.0


@dataclass
class Client:
    """How requests are sent. `concurrency` is how many are in flight: a number, or `auto` to find
    and follow the best one (runner.pacing). `request_timeout_s` null: no limit for one request."""

    concurrency: int | str = 8
    auto: Auto = field(default_factory=Auto)
    request_timeout_s: float | None = None
    retry: Retry = field(default_factory=Retry)


@dataclass
class Canary:
    """The first wave, judged before the bulk goes. `count` 0: none."""

    count: int = 8
    max_rejected: float = 0.5


@dataclass
class Breaker:
    """Stops a run whose answers turn bad: the share of rejected ones in a sliding window."""

    enabled: bool = True
    window: int = 40
    max_rejected: float = 0.5


@dataclass
class Resume:
    """How an existing run is continued. `accept`: changes of the world to go on with, by name.
    `reuse`: runs to take samples from that differ only in a smaller sampling.max_new_tokens."""

    accept: list[str] = field(default_factory=list)
    retry_failed: bool = False
    reuse: list[str] = field(default_factory=list)


@dataclass
class Partition:
    """One of `of` processes that share a run by the hash of ids; `index` counts from 0."""

    index: int = 0
    of: int = 1


@dataclass
class Shutdown:
    """`drain_s`: how long requests in flight may go on after the first Ctrl-C or SIGTERM."""

    drain_s: float = 30.0


@dataclass
class Notify:
    """`command` gets one JSON object on its standard input at each event (runner.notify)."""

    command: list[str] | None = None
    timeout_s: float = 10.0


@dataclass
class Paths:
    """`outputs` holds the run directories; absolute."""

    outputs: str = MISSING


@dataclass
class Config:
    """One run. The keys of this class are the top level of `conf/config.yaml`."""

    task_name: str = MISSING
    seed: int = 42
    tags: list[str] = field(default_factory=list)
    model: Model = MISSING
    server: Server = MISSING
    mode: Mode = MISSING
    sampling: Sampling = MISSING
    category: Category = MISSING
    source: Source = MISSING
    prompts: Prompts = field(default_factory=Prompts)
    budget: Budget = field(default_factory=Budget)
    validators: dict[str, Any] = field(default_factory=dict)
    tracking: Tracking = MISSING
    client: Client = field(default_factory=Client)
    canary: Canary = field(default_factory=Canary)
    breaker: Breaker = field(default_factory=Breaker)
    gates: dict[str, str] = field(default_factory=dict)
    resume: Resume = field(default_factory=Resume)
    partition: Partition = field(default_factory=Partition)
    shutdown: Shutdown = field(default_factory=Shutdown)
    notify: Notify = field(default_factory=Notify)
    identity: IdentityKind = IdentityKind.standard
    prepare: Prepare = Prepare.run
    preview: int = 0
    paths: Paths = MISSING
