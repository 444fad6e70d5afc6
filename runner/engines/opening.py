"""The table of engine kinds, and the one function that opens an engine by its kind."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from runner.engines.base import Endpoint, Engine
from runner.engines.llamacpp import LlamaCppEngine
from runner.engines.sglang import SglangEngine
from runner.errors import ConfigError

ENGINES: Mapping[str, Callable[..., Engine]] = MappingProxyType(
    {SglangEngine.kind: SglangEngine, LlamaCppEngine.kind: LlamaCppEngine}
)


def open_engine(
    kind: str,
    endpoint: Endpoint,
    *,
    vocab_size: int,
    timeout_s: float | None = None,
    max_connections: int,
) -> Engine:
    """An engine for one endpoint; nothing is sent yet. Raises ConfigError for an unknown kind.

    `vocab_size` bounds the input ids (the model's rows, padding included); `timeout_s` is for a
    whole request, None for none; `max_connections` is at least the requests in flight at once.
    """
    if kind not in ENGINES:
        raise ConfigError(
            "unknown engine kind", found=repr(kind), allowed=", ".join(sorted(ENGINES))
        )
    return ENGINES[kind](
        endpoint, vocab_size=vocab_size, timeout_s=timeout_s, max_connections=max_connections
    )
