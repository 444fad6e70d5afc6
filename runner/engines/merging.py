"""One description and one load for many endpoints. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from runner.engines.base import EngineInfo, ServerLoad
from runner.records import NOT_TOLD


def merge_infos(infos: Mapping[str, EngineInfo]) -> EngineInfo:
    """The limits that hold at every endpoint; texts that differ are joined."""
    every = list(infos.values())
    return EngineInfo(
        kind=every[0].kind,
        version=_joined(info.version for info in every),
        model=_joined(info.model for info in every),
        context_length=_least([info.context_length for info in every]),
        max_input_tokens=_least([info.max_input_tokens for info in every]),
        max_total_tokens=_least([info.max_total_tokens for info in every]),
        max_running=_total([info.max_running for info in every]),
        vocab_size=_least([info.vocab_size for info in every]),
        weight_version=_joined(info.weight_version for info in every),
        eog_ids=_shared_ids([info.eog_ids for info in every]),
        raw={name: info.raw for name, info in infos.items()},
    )


def merge_loads(loads: Sequence[ServerLoad]) -> ServerLoad | None:
    """Sums, and the fullest one for the shares; None for no load at all."""
    if not loads:
        return None
    speeds = [load.output_tokens_per_s for load in loads if load.output_tokens_per_s is not None]
    return ServerLoad(
        running=_total([load.running for load in loads]),
        queued=_total([load.queued for load in loads]),
        used_tokens=_total([load.used_tokens for load in loads]),
        token_usage=_fullest(load.token_usage for load in loads),
        output_tokens_per_s=sum(speeds) if speeds else None,
        cache_hit_rate=_fullest(load.cache_hit_rate for load in loads),
    )


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(text for text in texts if text))


def _least(counts: list[int]) -> int:
    return min((count for count in counts if count != NOT_TOLD), default=NOT_TOLD)


def _total(counts: list[int]) -> int:
    return NOT_TOLD if NOT_TOLD in counts else sum(counts)


def _fullest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)


def _shared_ids(lists: list[list[int] | None]) -> list[int] | None:
    known = [set(ids) for ids in lists if ids is not None]
    return sorted(set.intersection(*known)) if known else None
