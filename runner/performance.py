"""How fast an attempt was, what it cost, and where its time went: one record, made at its end.

Speeds are those of the steady window (runner.meter): warm-up and tail are told apart, since they
depend on how long a run is, not on the server. Cost counts all the time that the server was held.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from runner.config import Cost
from runner.gpuwatch import GpuWatch
from runner.meter import Mark, Meter
from runner.records import Record
from runner.stats import Distribution

LOST = ("start", "restart", "canary", "warm_up", "tail")
"""What time may go to beside the steady window."""


class Spent:
    """Seconds by what they went to."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.began_s = time.monotonic()

    def begin(self) -> None:
        """From now on the server is held."""
        self.began_s = time.monotonic()

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """What happens inside counts for `name`."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] += time.monotonic() - start


class Times(Record, frozen=True, kw_only=True):
    """Quantiles of one kind of time, in seconds."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float


class Performance(Record, frozen=True, kw_only=True):
    """An attempt's figures; None where there was no steady window, no GPU or no price.

    `held_s` is from the server's start to the end. `lost_s` is by name (`LOST`). Cached is the
    share of prompt tokens that the server had in its prefix cache.
    """

    held_s: float
    steady_s: float
    output_tokens: int
    prompt_tokens: int
    output_tokens_per_s: float | None = None
    output_tokens_per_s_per_gpu: float | None = None
    prompt_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    in_flight: float | None = None
    latency: Times | None = None
    first_token: Times | None = None
    cached_share: float | None = None
    retractions_per_request: float | None = None
    lost_s: dict[str, float] = {}
    gpus: int = 0
    gpu_power_w: float | None = None
    gpu_memory_mib: float | None = None
    gpu_load: float | None = None
    gpu_hours: float | None = None
    cost: float | None = None
    cost_per_billion_output_tokens: float | None = None
    currency: str = ""


def measure(meter: Meter, spent: Spent, gpu: GpuWatch, cost: Cost, *, now_s: float) -> Performance:
    """The record of one attempt that ends at `now_s` (time.monotonic)."""
    held_s = now_s - spent.began_s
    gpus = cost.gpus if cost.gpus is not None else gpu.gpus
    gpu_hours = gpus * held_s / 3600 if gpus else None
    paid = (
        gpu_hours * cost.gpu_hour if gpu_hours is not None and cost.gpu_hour is not None else None
    )
    tokens = meter.totals.output_tokens
    begin, end = _steady(meter, now_s)
    seen = gpu.looks > 0
    whole = Performance(
        held_s=held_s,
        steady_s=end.at_s - begin.at_s if begin and end else 0.0,
        output_tokens=tokens,
        prompt_tokens=meter.totals.prompt_tokens,
        lost_s=_lost(meter, spent, now_s),
        gpus=gpus,
        gpu_power_w=gpu.power_w if seen else None,
        gpu_memory_mib=gpu.memory_mib if seen else None,
        gpu_load=gpu.load if seen else None,
        gpu_hours=gpu_hours,
        cost=paid,
        cost_per_billion_output_tokens=paid / tokens * 1e9 if paid is not None and tokens else None,
        currency=cost.currency if paid is not None else "",
    )
    if begin is None or end is None:
        return whole
    return msgspec.structs.replace(whole, **_speeds(meter, begin, end, gpus))


def _steady(meter: Meter, now_s: float) -> tuple[Mark | None, Mark | None]:
    """Begin and end of the steady window; both or neither. A run that was stopped before its last
    request was sent is steady up to its end."""
    begin = meter.steady
    end = meter.emptying or meter.ended or Mark(at_s=now_s, totals=meter.totals)
    whole = begin is not None and end.at_s > begin.at_s
    return (begin, end) if whole else (None, None)


def _speeds(meter: Meter, begin: Mark, end: Mark, gpus: int) -> dict[str, float | Times | None]:
    window, seconds = end.totals.minus(begin.totals), end.at_s - begin.at_s
    output_per_s = window.output_tokens / seconds
    return {
        "output_tokens_per_s": output_per_s,
        "output_tokens_per_s_per_gpu": output_per_s / gpus if gpus else None,
        "prompt_tokens_per_s": window.prompt_tokens / seconds,
        "requests_per_s": window.answers / seconds,
        "in_flight": meter.in_flight_s / seconds,
        "latency": _times(meter.latency_ms),
        "first_token": _times(meter.first_token_ms),
        "cached_share": window.cached_tokens / window.prompt_tokens
        if window.prompt_tokens
        else None,
        "retractions_per_request": window.retractions / window.answers if window.answers else None,
    }


def _times(counted_ms: Distribution) -> Times | None:
    if not len(counted_ms):
        return None
    p50, p90, p99 = (counted_ms.quantile(share) / 1000 for share in (0.5, 0.9, 0.99))
    return Times(mean_s=counted_ms.mean / 1000, p50_s=p50, p90_s=p90, p99_s=p99)


def _lost(meter: Meter, spent: Spent, now_s: float) -> dict[str, float]:
    seconds = {name: value for name, value in spent.seconds.items() if name in LOST}
    ended_s = meter.ended.at_s if meter.ended else now_s
    if meter.began is not None:
        first = meter.steady or meter.emptying
        seconds["warm_up"] = (first.at_s if first else ended_s) - meter.began.at_s
    if meter.emptying is not None:
        seconds["tail"] = ended_s - meter.emptying.at_s
    return {name: round(seconds[name], 3) for name in LOST if seconds.get(name, 0.0) > 0}


def figures(performance: Performance) -> dict[str, float]:
    """What tracking is told: flat, only what is known."""
    names = (
        "output_tokens_per_s",
        "output_tokens_per_s_per_gpu",
        "requests_per_s",
        "cached_share",
        "retractions_per_request",
        "gpu_hours",
        "cost",
        "cost_per_billion_output_tokens",
    )
    found: dict[str, float | None] = {name: getattr(performance, name) for name in names}
    found["lost_s"] = sum(performance.lost_s.values())
    if performance.latency is not None:
        found["latency_p50_s"] = performance.latency.p50_s
        found["latency_p99_s"] = performance.latency.p99_s
    if performance.first_token is not None:
        found["first_token_p50_s"] = performance.first_token.p50_s
    return {f"speed/{name}": value for name, value in found.items() if value is not None}


def read_performance(plain: Mapping[str, Any]) -> Performance | None:
    """The record in a run.json; None when there is none, or one of another version."""
    try:
        return msgspec.convert(plain, Performance)
    except msgspec.ValidationError:
        return None


def lines(performance: Performance) -> list[tuple[str, str]]:
    """(what, figures) for a person."""
    return [(what, text) for what, text in _all_lines(performance) if text]


def _all_lines(p: Performance) -> Iterator[tuple[str, str]]:
    if p.output_tokens_per_s is not None and p.prompt_tokens_per_s is not None:
        per_gpu = p.output_tokens_per_s_per_gpu
        each = f" ({per_gpu:,.0f} per GPU)" if per_gpu is not None and p.gpus > 1 else ""
        yield (
            "steady",
            f"{p.output_tokens_per_s:,.0f} output tokens/s{each}, {p.prompt_tokens_per_s:,.0f} "
            f"prompt tokens/s, {p.requests_per_s or 0:,.2f} requests/s over {p.steady_s:,.0f} s, "
            f"{p.in_flight or 0:,.0f} in flight",
        )
    else:
        yield "steady", "too short for a steady window"
    yield "latency", _told(p.latency)
    yield "first token", _told(p.first_token)
    shares = []
    if p.cached_share is not None:
        shares.append(f"{p.cached_share:.1%} of prompt tokens cached")
    if p.retractions_per_request is not None:
        shares.append(f"{p.retractions_per_request:.3f} retractions a request")
    yield "server", ", ".join(shares)
    yield "lost", _told_lost(p.lost_s, p.held_s)
    yield "GPU", _told_gpu(p)


def _told(times: Times | None) -> str:
    if times is None:
        return ""
    return f"p50 {times.p50_s:.2f} s, p90 {times.p90_s:.2f} s, p99 {times.p99_s:.2f} s"


def _told_lost(lost_s: Mapping[str, float], held_s: float) -> str:
    parts = ", ".join(f"{name.replace('_', '-')} {s:,.1f} s" for name, s in lost_s.items())
    return f"{parts} of {held_s:,.1f} s" if parts else ""


def _told_gpu(p: Performance) -> str:
    parts = []
    if p.gpu_hours is not None:
        parts.append(f"{p.gpu_hours:,.2f} GPU hours")
    if p.cost is not None and p.cost_per_billion_output_tokens is not None:
        each = p.cost_per_billion_output_tokens
        parts.append(f"{p.cost:,.2f} {p.currency}, {each:,.0f} per billion output tokens")
    if p.gpu_power_w is not None and p.gpu_memory_mib is not None:
        parts.append(f"{p.gpu_power_w:,.0f} W, {p.gpu_memory_mib / 1024:,.1f} GiB at most")
    return ", ".join(parts)
