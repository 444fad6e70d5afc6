"""What an SGLang answer must be before it counts as data. Pure: parsed JSON in, `Completion` out.

An answer is usable when it names our request, finished by `stop` or `length`, and its counts and
its echo of the prompt agree with its ids and with ours. Everything else that may be wrong with it
(a NaN stop, a clamped length, a stop id in the middle, ids outside the vocabulary) is kept as the
server said it: validators judge stored samples, and a dropped answer could not be judged.

Read from sglang 0.5.23 and its recorded answers. Aborts come with HTTP 200; a NaN is reported as a
normal stop with `matched: "NaN happened"`; `finish_reason.length` is the clamped limit.
"""

from typing import Any

import orjson

from runner.engines.base import REASONS, EngineFault, FaultKind
from runner.records import NOT_TOLD, Completion, Echo, Finish

ID_BITS_LIMIT = 2**31
"""Ids are stored as integers that every reader takes for one column type."""

MATCHED_TEXT_LIMIT = 200


def parse_sglang(answer: object, *, rid: str, input_ids: list[int]) -> Completion:
    """The completion in one parsed `/generate` answer. Raises EngineFault when it is unusable."""
    body = as_object(answer)
    meta = body.get("meta_info")
    if not isinstance(meta, dict):
        raise unusable("missing_meta", found=meta, answer=body)
    if meta.get("id") != rid:
        raise unusable("wrong_rid", found=meta.get("id"), wanted=rid, answer=body)
    finish, matched, finish_length = read_finish(meta.get("finish_reason"), body)
    output_ids = read_ids(body.get("output_ids"), body)
    check_count("completion_count", meta.get("completion_tokens"), len(output_ids), body)
    check_count("prompt_count", meta.get("prompt_tokens"), len(input_ids), body)
    matched_token, matched_text = split_matched(matched)
    return Completion(
        rid=rid,
        output_ids=output_ids,
        finish=finish,
        matched_token=matched_token,
        matched_text=matched_text,
        finish_length=told(finish_length),
        prompt_tokens=len(input_ids),
        completion_tokens=len(output_ids),
        prompt_echo=read_echo(body.get("prompt_token_ids"), input_ids, body),
        cached_tokens=told(meta.get("cached_tokens")),
        retractions=told(meta.get("num_retractions")),
        weight_version=read_weight_version(meta),
        first_token_s=told_s(meta.get("first_token_latency")),
    )


def check_prompt(input_ids: list[int], *, vocab_size: int) -> None:
    """Raises EngineFault for a prompt that must not be sent.

    SGLang checks no range: one id outside [0, vocab_size) kills the whole server.
    """
    if not input_ids:
        raise EngineFault(FaultKind.REFUSED, "empty_prompt")
    for position, value in enumerate(input_ids):
        if type(value) is not int or not 0 <= value < vocab_size:
            detail = f"id {value!r} at position {position}; allowed 0 to {vocab_size - 1}; not sent"
            raise EngineFault(FaultKind.REFUSED, "bad_input_id", detail=detail)


def as_object(answer: object) -> dict[str, Any]:
    """The answer itself when it is one JSON object. Raises EngineFault otherwise."""
    if isinstance(answer, dict):
        return answer
    raise unusable("not_object", found=type(answer).__name__, answer=answer)


def read_finish(reason: object, answer: object) -> tuple[Finish, object, object]:
    """(finish, matched, length) as the server told them. Raises EngineFault on any other finish."""
    if reason is None:
        raise unusable("finish_null", answer=answer)
    kind = reason.get("type") if isinstance(reason, dict) else reason
    if not isinstance(reason, dict) or kind not in ("stop", "length", "abort"):
        raise unusable("finish_unknown", found=kind, answer=answer)
    if kind == "abort":
        raise unusable("abort", found=reason.get("message"), answer=answer)
    if kind == "stop":
        return "stop", reason.get("matched"), None
    return "length", None, reason.get("length")


def read_ids(ids: object, answer: object) -> list[int]:
    """Output ids, at least one, each an integer of 32 bits. Raises EngineFault otherwise."""
    if not isinstance(ids, list):
        raise unusable("missing_ids", found=type(ids).__name__, answer=answer)
    if not all(is_id(value) for value in ids):
        bad = next(value for value in ids if not is_id(value))
        raise unusable("bad_ids", found=bad, answer=answer)
    if not ids:
        raise unusable("no_output", answer=answer)
    return ids


def read_echo(echo: object, input_ids: list[int], answer: object) -> Echo:
    """Whether the prompt that the engine used was told, and is ours. Raises EngineFault if not."""
    if echo is None:
        return "absent"
    if not isinstance(echo, list) or echo != input_ids:
        raise unusable("echo_differs", found=_difference(echo, input_ids), answer=answer)
    return "same"


def _difference(echo: object, input_ids: list[int]) -> str:
    if not isinstance(echo, list):
        return type(echo).__name__
    pairs = enumerate(zip(echo, input_ids, strict=False))
    first = next(
        (at for at, (theirs, ours) in pairs if theirs != ours), min(len(echo), len(input_ids))
    )
    return f"{len(echo)} ids for {len(input_ids)}, the first difference at position {first}"


def check_count(reason: str, told_count: object, counted: int, answer: object) -> None:
    """Raises EngineFault when a count is missing or is not what was counted here."""
    if type(told_count) is not int or told_count != counted:
        raise unusable(reason, found=told_count, wanted=counted, answer=answer)


def split_matched(matched: object) -> tuple[int, str]:
    """`matched` as (token, text): an id or a text, whichever it is; (NOT_TOLD, "") for neither."""
    if is_id(matched):
        return matched, ""  # type: ignore[return-value]  # is_id proved that it is an int
    if matched is None:
        return NOT_TOLD, ""
    return NOT_TOLD, as_text(matched)[:MATCHED_TEXT_LIMIT]


def read_weight_version(meta: dict[str, Any]) -> str:
    """The weights that made the answer, "" where they are not told. Several, joined by "+", where
    they were exchanged while it was made: SGLang lists a stretch of ids for each."""
    last, stretches = meta.get("weight_version"), meta.get("weight_versions")
    if not isinstance(last, str):
        return ""
    listed = stretches if isinstance(stretches, list) else []
    every = [*(one.get("version") for one in listed if isinstance(one, dict)), last]
    return "+".join(dict.fromkeys(name for name in every if isinstance(name, str) and name))


def told(value: object) -> int:
    """A count that the server told, or NOT_TOLD."""
    return value if type(value) is int and 0 <= value < ID_BITS_LIMIT else NOT_TOLD


def told_s(value: object) -> float:
    """A time in seconds that the server told, or NOT_TOLD."""
    return float(value) if isinstance(value, int | float) and value >= 0 else NOT_TOLD


def is_id(value: object) -> bool:
    """True for an int (never a bool) of 32 bits. Out of vocabulary is for validators to judge."""
    return type(value) is int and -ID_BITS_LIMIT <= value < ID_BITS_LIMIT


def unusable(
    reason: str, *, found: object = None, wanted: object = None, answer: object = None
) -> EngineFault:
    """The fault for an answer that is no data, with the answer's text kept for the reader."""
    parts = [f"{REASONS[reason]}: found {as_text(found)[:200]}"]
    if wanted is not None:
        parts.append(f"expected {as_text(wanted)[:200]}")
    return EngineFault(FaultKind.UNUSABLE, reason, detail=", ".join(parts), raw=as_text(answer))


def as_text(value: object) -> str:
    """Any JSON value as text: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):  # not from a JSON parser: a fault must still be readable
        return repr(value)
