"""The vocabulary of engines: what one promises, what it tells, and every way in which it fails.

An engine sends one prompt as token ids and returns one `Completion` whose ids are proven consistent
with everything that the server said about them, or raises `EngineFault`. It never retries, never
re-tokenizes, never judges a model's text: the caller decides what a `FaultKind` means for the run.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from runner.records import NOT_TOLD, Completion, Record, SamplingParams

RAW_LIMIT_BYTES = 4096
"""How much of a bad answer is kept with its fault: enough to read, small enough to store often."""


class FaultKind(StrEnum):
    """What the caller should do about a request that gave no completion."""

    UNUSABLE = "unusable"
    """Answered, but not usable: ask again, and count an attempt."""
    REFUSED = "refused"
    """A permanent no to this very request: record it, never ask again."""
    BUSY = "busy"
    """Not now: ask later, count no attempt."""
    UNREACHABLE = "unreachable"
    """No answer, or half of one; the server may be dead. Count no attempt."""
    DENIED = "denied"
    """The route or the key is wrong, so every request would fail alike: the run must stop."""


REASONS: Mapping[str, str] = MappingProxyType(
    {
        # unusable
        "not_json": "the body is not JSON",
        "not_object": "the body is JSON but not one object (a list answers a batch or n > 1)",
        "missing_meta": "no meta_info",
        "wrong_rid": "the answer names another request",
        "finish_null": "no finish reason: the answer is not finished",
        "finish_unknown": "a finish reason that is neither stop nor length",
        "abort": "the server aborted the request, whatever the HTTP status said",
        "missing_ids": "no output ids",
        "bad_ids": "output ids that are not integers of 32 bits",
        "no_output": "not one output token",
        "completion_count": "completion_tokens disagrees with the number of output ids",
        "prompt_count": "prompt_tokens disagrees with the number of ids that were sent",
        "echo_differs": "the prompt that the engine used is not the one that was sent",
        "duplicate_rid": "a request of this name is still running on the server",
        "timeout": "no answer within the time-out of the config or of a proxy (HTTP 504)",
        "bad_http": "the answer is not HTTP",
        "http_500": "HTTP 500",
        "http_other": "an HTTP status that this client has no rule for",
        # refused
        "too_long": "prompt, or prompt and new tokens, exceed what the server can hold",
        "bad_request": "the server refuses the request as malformed (HTTP 400 or 422)",
        "too_large": "the body is larger than the server or a proxy accepts (HTTP 413)",
        "bad_input_id": "an id outside the vocabulary; not sent, it would kill the server",
        "empty_prompt": "no input ids; not sent",
        "unsupported_sampling": "this engine cannot do what the sampling parameters ask; not sent",
        # busy
        "queue_full": "the server's queue is full, or it is loading or draining (HTTP 503)",
        "rate_limited": "HTTP 429",
        # unreachable
        "connect_failed": "nobody listens there",
        "disconnected": "the connection ended before an answer came",
        "cut_body": "the connection ended inside an answer",
        "bad_gateway": "a proxy could not reach the server (HTTP 502)",
        "all_set_aside": "every endpoint of the pool is set aside",
        # denied
        "denied": "the API key is missing or wrong (HTTP 401 or 403)",
        "no_route": "this is not the server that the config says (HTTP 404, 405 or a redirect)",
    }
)
"""Every reason code that a fault may carry, and what it means."""


class EngineFault(Exception):
    """A request that gave no completion. `endpoint` is filled in by the pool.

    Raises ValueError when built with a reason that `REASONS` does not declare.
    """

    def __init__(self, kind: FaultKind, reason: str, *, detail: str = "", raw: str = "") -> None:
        if reason not in REASONS:
            raise ValueError(f"undeclared fault reason {reason!r}")
        self.kind = kind
        self.reason = reason
        self.detail = detail or REASONS[reason]
        self.raw = bounded(raw)
        self.endpoint = ""
        super().__init__(f"{kind.value}/{reason}: {self.detail}")


def bounded(text: str) -> str:
    """A text of at most `RAW_LIMIT_BYTES` as UTF-8: its beginning and its end when it is longer.

    The end matters: SGLang tells the ids first and what it thinks of them last.
    """
    if len(text) * 4 <= RAW_LIMIT_BYTES:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= RAW_LIMIT_BYTES:
        return data.decode()
    half = (RAW_LIMIT_BYTES - len(_CUT)) // 2
    return (data[:half] + _CUT + data[-half:]).decode("utf-8", "ignore")


_CUT = b"\n[...]\n"


class EngineInfo(Record, frozen=True, kw_only=True):
    """What a server says of itself. Integers that it does not tell are `NOT_TOLD`.

    `max_running` counts requests that run at once; `eog_ids` are the ids at which the engine ends
    by itself (None: it does not tell); `raw` holds the answers, with every secret redacted.
    """

    kind: str
    version: str = ""
    model: str = ""
    context_length: int = NOT_TOLD
    max_input_tokens: int = NOT_TOLD
    max_total_tokens: int = NOT_TOLD
    max_running: int = NOT_TOLD
    vocab_size: int = NOT_TOLD
    weight_version: str = ""
    eog_ids: list[int] | None = None
    raw: dict[str, Any] = {}


class ServerLoad(Record, frozen=True, kw_only=True):
    """What a server is doing now. What it does not tell is `NOT_TOLD`, or None for the floats.

    `used_tokens` moves while the server works, so a caller can tell slow from hung.
    """

    running: int = NOT_TOLD
    queued: int = NOT_TOLD
    used_tokens: int = NOT_TOLD
    token_usage: float | None = None
    output_tokens_per_s: float | None = None
    cache_hit_rate: float | None = None


class Endpoint(Protocol):
    """Where a server listens. `api_key` is "" when it asks for none."""

    @property
    def url(self) -> str: ...

    @property
    def api_key(self) -> str: ...


class Engine(Protocol):
    """One endpoint that turns ids into ids."""

    @property
    def kind(self) -> str: ...

    async def generate(
        self, rid: str, input_ids: list[int], sampling: SamplingParams
    ) -> Completion:
        """Send one prompt. `rid` must be new for each request. Raises EngineFault."""
        ...

    async def info(self) -> EngineInfo:
        """Ask the server about itself; optional routes may be missing. Raises EngineFault."""
        ...

    async def load(self) -> ServerLoad | None:
        """What the server is doing; None when it does not tell. Raises EngineFault (no answer)."""
        ...

    async def healthy(self) -> bool:
        """True when the server says that it can generate. Never raises EngineFault."""
        ...

    async def close(self) -> None:
        """Close all connections; requests in flight end as `disconnected`."""
        ...
