"""The bodies that llama.cpp's `/completion` takes and gives, as pure functions. See `llamacpp`."""

import contextlib
import math
from typing import Any

from runner.engines.base import EngineFault, EngineInfo, FaultKind, ServerLoad
from runner.engines.contract import as_object, check_count, read_ids, told, unusable
from runner.records import NOT_TOLD, Completion, Finish, SamplingParams

KIND = "llamacpp"

SAMPLERS = ["penalties", "temperature", "top_k", "top_p", "min_p"]
"""In SGLang's order: the cuts see the distribution that the temperature made, not the raw one."""

OVERRIDES: dict[str, Any] = {
    "stream": False,
    "return_tokens": True,
    # A cached prefix changes the low bits of the logits, and so which of two near ties wins.
    "cache_prompt": False,
    "samplers": SAMPLERS,
    "seed": -1,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "xtc_probability": 0.0,
    "dry_multiplier": 0.0,
    "dry_penalty_last_n": 0,
    "mirostat": 0,
    "adaptive_target": -1.0,
    "logit_bias": [],
    "grammar": "",
    "stop": [],
    "lora": [],
    "n_probs": 0,
    "min_keep": 0,
    "n_keep": 0,
    "n_discard": 0,
    "n_indent": 0,
    "n_cmpl": 1,
    "t_max_predict_ms": -1,
    "id_slot": -1,
    "backend_sampling": False,
    "post_sampling_probs": False,
    "timings_per_token": False,
    "return_progress": False,
}
"""What never varies. Each one is a default of llama.cpp's that a server may be started with another
value for; neutral means that the sampler does nothing."""


def check_sampling(sampling: SamplingParams) -> None:
    """Raises EngineFault for parameters that this server would silently not honour."""
    if sampling.min_new_tokens > 0:
        detail = f"min_new_tokens {sampling.min_new_tokens}: llama.cpp has no minimum; use 0"
    elif sampling.max_new_tokens < 1:
        detail = f"max_new_tokens {sampling.max_new_tokens}: llama.cpp makes one token at least"
    else:
        return
    raise EngineFault(FaultKind.REFUSED, "unsupported_sampling", detail=detail)


def request_body(input_ids: list[int], sampling: SamplingParams) -> dict[str, Any]:
    """The body of one `/completion` request, under llama.cpp's names."""
    penalties = (
        sampling.repetition_penalty != 1.0,
        sampling.presence_penalty != 0.0,
        sampling.frequency_penalty != 0.0,
    )
    # The window must hold all of it; -1 is out of range in this server, and 0 is none.
    window = len(input_ids) + sampling.max_new_tokens if any(penalties) else 0
    return {
        **OVERRIDES,
        "prompt": input_ids,
        "n_predict": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_k": max(sampling.top_k, 0),  # 0 is "all" here, -1 in SGLang
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_last_n": window,
        "repeat_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "ignore_eos": sampling.ignore_eos,
    }


def parse_llamacpp(answer: object, *, rid: str, input_ids: list[int]) -> Completion:
    """The completion in one parsed `/completion` answer. Raises EngineFault when unusable."""
    body = as_object(answer)
    finish, matched_text = read_stop(body)
    output_ids = read_ids(body.get("tokens"), body)
    check_count("completion_count", body.get("tokens_predicted"), len(output_ids), body)
    check_count("prompt_count", body.get("tokens_evaluated"), len(input_ids), body)
    ended_by_token = finish == "stop" and not matched_text
    return Completion(
        rid=rid,
        output_ids=output_ids,
        finish=finish,
        matched_token=output_ids[-1] if ended_by_token else NOT_TOLD,
        matched_text=matched_text,
        finish_length=len(output_ids) if finish == "length" else NOT_TOLD,
        prompt_tokens=len(input_ids),
        completion_tokens=len(output_ids),
        cached_tokens=told(_object(body.get("timings")).get("cache_n")),
    )


def read_stop(body: dict[str, Any]) -> tuple[Finish, str]:
    """(finish, stop word) from `stop_type`. Raises EngineFault when it has not finished."""
    match body.get("stop_type"):
        case "eos":
            return "stop", ""
        case "limit":
            return "length", ""
        case "word":  # none was sent, so validators reject it, as they do with SGLang's NaN stop
            return "stop", str(body.get("stopping_word") or "unnamed stop word")[:200]
        case None | "none":
            raise unusable("finish_null", answer=body)
        case other:
            raise unusable("finish_unknown", found=other, answer=body)


def read_eog_ids(answer: object) -> list[int] | None:
    """The ids in `generation_settings.logit_bias` of an answer to ignore_eos; None if not told."""
    settings = _object(_object(answer).get("generation_settings"))
    biases = settings.get("logit_bias")
    if not isinstance(biases, list):
        return None
    ids = [told(_object(bias).get("token")) for bias in biases]
    return sorted(value for value in ids if value != NOT_TOLD) or None


def read_info(answers: dict[str, Any], *, eog_ids: list[int] | None) -> EngineInfo:
    """The limits in the answers of the optional routes; whatever is missing is NOT_TOLD."""
    props = _object(answers.get("props"))
    rows = _object(answers.get("models")).get("data")
    model = _object(rows[0]) if isinstance(rows, list) and rows else {}
    meta = _object(model.get("meta"))
    settings = _object(props.get("default_generation_settings"))
    context = told(settings.get("n_ctx", meta.get("n_ctx")))
    slots = told(props.get("total_slots"))
    return EngineInfo(
        kind=KIND,
        version=str(props.get("build_info", "")),
        model=str(props.get("model_path") or model.get("id") or ""),
        context_length=context,
        max_input_tokens=context - 1 if context > 0 else NOT_TOLD,
        max_total_tokens=context * slots if context > 0 and slots > 0 else NOT_TOLD,
        max_running=slots,
        vocab_size=told(meta.get("n_vocab")),
        eog_ids=eog_ids,
        raw=answers,
    )


def read_load(slots: object, metrics: str) -> ServerLoad | None:
    """From the slots and the Prometheus text ("" when there is none); None without slots."""
    rows = [_object(slot) for slot in slots] if isinstance(slots, list) else []
    if not rows:
        return None
    busy = [row for row in rows if row.get("is_processing") is True]
    deferred = read_metric(metrics, "llamacpp:requests_deferred")
    return ServerLoad(
        running=len(busy),
        queued=NOT_TOLD if deferred is None else int(deferred),
        used_tokens=sum(_tokens_held(row) for row in busy),
        output_tokens_per_s=read_metric(metrics, "llamacpp:predicted_tokens_seconds"),
    )


def read_metric(metrics: str, name: str) -> float | None:
    """The value of one metric without labels in a Prometheus text, or None."""
    for line in metrics.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            with contextlib.suppress(ValueError):
                number = float(value)
                return number if math.isfinite(number) else None
    return None


def _tokens_held(slot: dict[str, Any]) -> int:
    following = slot.get("next_token")
    state = _object(following[0] if isinstance(following, list) and following else following)
    counts = (told(slot.get("n_prompt_tokens_processed")), told(state.get("n_decoded")))
    return sum(count for count in counts if count > 0)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
