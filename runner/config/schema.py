"""Every key that `conf/` may set, with its type and its default: Hydra composes against these.

Plain dataclasses, since structured configs need them; treated as frozen everywhere. What a value
may be is in `ranges`, what a change of it means for a run in `runner.identity`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING

from runner.config.prompt_schema import Budget, Category, Prompts, Source


class ServerKind(Enum):
    """How a server comes to be. `external`: somebody else started it."""

    llamacpp = "llamacpp"
    sglang = "sglang"
    external = "external"


class EngineKind(Enum):
    """Which protocol the server speaks; part of a run's identity, unlike how it was started."""

    llamacpp = "llamacpp"
    sglang = "sglang"


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
class Tuning:
    """`trial_s` makes a run a trial of its settings (runner.tuning): it ends after so many seconds
    of its steady window, or sooner once it is surely slower than `give_up_below` of the best."""

    trial_s: float | None = None
    give_up_below: float = 0.7


@dataclass
class Cost:
    """For GPU hours and cost: the price of one GPU for an hour, and how many GPUs the server holds
    (null: those that nvidia-smi shows on this machine)."""

    gpu_hour: float | None = None
    currency: str = "USD"
    gpus: int | None = None


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
    estimate: bool = False
    cost: Cost = field(default_factory=Cost)
    tuning: Tuning = field(default_factory=Tuning)
    paths: Paths = MISSING
