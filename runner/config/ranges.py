"""What each value may be, beside its type."""

from collections.abc import Callable
from typing import Any

Check = tuple[str, Callable[[Any], bool]]
_POSITIVE: Check = ("a number above 0", lambda v: v > 0)
_AT_LEAST_0: Check = ("0 or more", lambda v: v >= 0)
_AT_LEAST_1: Check = ("1 or more", lambda v: v >= 1)
_SHARE: Check = ("between 0 and 1", lambda v: 0 <= v <= 1)
_NAME: Check = (
    "letters, digits, '.', '_' and '-', beginning with a letter or digit, 64 at most",
    lambda v: 0 < len(v) <= 64 and v[0].isalnum() and all(c.isalnum() or c in "._-" for c in v)
    and v.isascii(),
)  # fmt: skip


RANGES: dict[str, Check] = {
    "task_name": _NAME,
    "model.name": _NAME,
    "mode.name": _NAME,
    "sampling.name": _NAME,
    "category.name": _NAME,
    "model.context_length": _AT_LEAST_1,
    "server.port": ("0 (a free one) to 65535", lambda v: 0 <= v <= 65535),
    "server.ready_timeout_s": _POSITIVE,
    "server.stall_s": _POSITIVE,
    "server.term_timeout_s": _AT_LEAST_0,
    "server.restart.max_restarts": _AT_LEAST_0,
    "server.restart.backoff_s": _AT_LEAST_0,
    "server.restart.backoff_max_s": _AT_LEAST_0,
    "sampling.max_new_tokens": _AT_LEAST_1,
    "sampling.temperature": ("0 (greedy) to 10", lambda v: 0 <= v <= 10),
    "sampling.top_p": ("above 0, at most 1", lambda v: 0 < v <= 1),
    "sampling.top_k": ("-1 (all) or 1 and more", lambda v: v == -1 or v >= 1),
    "sampling.min_p": _SHARE,
    "sampling.frequency_penalty": ("-2 to 2", lambda v: -2 <= v <= 2),
    "sampling.presence_penalty": ("-2 to 2", lambda v: -2 <= v <= 2),
    "sampling.repetition_penalty": ("above 0, at most 2", lambda v: 0 < v <= 2),
    "sampling.min_new_tokens": _AT_LEAST_0,
    "category.count": _AT_LEAST_1,
    "category.n": _AT_LEAST_1,
    "category.parts.*.count": _AT_LEAST_1,
    "category.parts.*.n": _AT_LEAST_1,
    "category.parts.*.weight": _POSITIVE,
    "category.parts.*.max_prompt_tokens": _AT_LEAST_1,
    "category.parts.*.budget_tokens": _AT_LEAST_1,
    "category.parts.*.hub.count": _AT_LEAST_1,
    "category.parts.*.hub.first_rows": _AT_LEAST_1,
    "category.total": _AT_LEAST_1,
    "prompts.workers": _AT_LEAST_0,
    "budget.output_tokens": _AT_LEAST_1,
    "preview": _AT_LEAST_0,
    "tracking.interval_s": _POSITIVE,
    "tracking.flush_timeout_s": _AT_LEAST_0,
    "client.concurrency": (
        "1 or more, or auto",
        lambda v: v == "auto" or (isinstance(v, int) and v >= 1),
    ),
    "tuning.trial_s": _POSITIVE,
    "tuning.give_up_below": _SHARE,
    "cost.gpu_hour": _AT_LEAST_0,
    "cost.gpus": _AT_LEAST_0,
    "client.auto.first": _AT_LEAST_1,
    "client.auto.most": _AT_LEAST_1,
    "client.auto.interval_s": _POSITIVE,
    "client.request_timeout_s": _POSITIVE,
    "client.retry.max_attempts": _AT_LEAST_1,
    "client.retry.backoff_s": _AT_LEAST_0,
    "client.retry.backoff_max_s": _AT_LEAST_0,
    "canary.count": _AT_LEAST_0,
    "canary.max_rejected": _SHARE,
    "breaker.window": _AT_LEAST_1,
    "breaker.max_rejected": _SHARE,
    "partition.index": _AT_LEAST_0,
    "partition.of": _AT_LEAST_1,
    "shutdown.drain_s": _AT_LEAST_0,
    "notify.timeout_s": _POSITIVE,
}
"""What each value may be. Sampling ranges are those of SGLang's own SamplingParams.verify."""
