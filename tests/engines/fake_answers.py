"""What the fake SGLang says: pure functions from a scenario and a request to an answer.

Answers have the shape of recorded ones (sglang 0.5.23). Output ids are a function of the scenario's
seed, the prompt's ids and k, so two runs over the same prompts get equal content, in any order. k
is read from a rid that begins with CATEGORY[.SOURCE]-ROW-K; other rids have k = 0, and so has
everything at temperature 0.
"""

import copy
import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

RECORDINGS = Path(__file__).parent / "recordings"


def recorded(name: str) -> dict[str, Any]:
    """One recorded exchange: {request, status, body}."""
    return json.loads((RECORDINGS / f"{name}.json").read_text())


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scripted fault, and the requests (counted from 1) that it strikes.

    It strikes when all of these hold: the number is one of `at` (if given) and between `first` and
    `last`, the prompt holds the id `with_id` (if given), the rid contains `with_rid`, and a draw,
    seeded by the number, is below `rate`.
    """

    kind: str
    at: list[int] = []
    first: int = 1
    last: int = 1 << 60
    rate: float = 1.0
    with_id: int = -1
    with_rid: str = ""
    status: int = 400
    delay_s: float = 1.0

    def strikes(self, number: int, rid: str, input_ids: list[int], *, seed: int) -> bool:
        return (
            (not self.at or number in self.at)
            and self.first <= number <= self.last
            and self.with_rid in rid
            and (self.with_id < 0 or self.with_id in input_ids)
            and rng_for(seed, self.kind, number).random() < self.rate
        )


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model and the server that the fake plays. -1 means "none" for ids and limits.

    `vocab_size` are the model's rows; ids from `vocab_assigned` on mean nothing. `over_length_rate`
    is the share of answers that never stop by themselves.
    """

    seed: int = 0
    vocab_size: int = 1024
    vocab_assigned: int = 1000
    first_plain_id: int = 32
    stop_id: int = 2
    think_close_id: int = -1
    min_output: int = 4
    max_output: int = 24
    over_length_rate: float = 0.0
    context_length: int = 8192
    kv_tokens: int = 65536
    api_key: str = ""
    model: str = "fake-model"
    version: str = "0.5.23"
    latency_s: float = 0.0
    latency_per_token_s: float = 0.0
    ready_after_s: float = 0.0
    max_running: int = -1
    max_queued: int = -1
    ignore_sigterm: bool = False
    death_delay_s: float = 0.05
    missing_routes: list[str] = []
    faults: list[Fault] = []

    @property
    def max_input_tokens(self) -> int:
        """As sglang computes `max_req_input_len`: it holds back five."""
        return min(self.context_length - 1, self.kv_tokens - 1) - 5


def rng_for(*parts: object) -> random.Random:
    """A generator seeded by the text of its parts, the same in every process."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest))


def k_of(rid: str) -> int:
    """K in a rid that begins with a sample id CATEGORY[.SOURCE]-ROW-K, else 0."""
    match = re.match(r"\S*?-\d+-(\d+)(?![\w-])", rid)
    return int(match[1]) if match else 0


def output_for(
    scenario: Scenario, input_ids: list[int], k: int, sampling: dict[str, Any]
) -> tuple[list[int], dict[str, Any]]:
    """(output ids, finish_reason): plain ids, one think close if there is one, a stop id last."""
    k = 0 if sampling.get("temperature", 1.0) == 0 else k
    rng = rng_for(scenario.seed, k, input_ids)
    limit = sampling.get("max_new_tokens", 128)
    never_stops = sampling.get("ignore_eos", False) or rng.random() < scenario.over_length_rate
    size = max(limit, 1) if never_stops else rng.randint(scenario.min_output, scenario.max_output)
    stops = {scenario.stop_id, scenario.think_close_id, *(sampling.get("stop_token_ids") or [])}
    span = scenario.vocab_assigned - scenario.first_plain_id
    drawn = [scenario.first_plain_id + int(rng.random() * span) for _ in range(size)]
    ids = [value if value not in stops else scenario.first_plain_id - 1 for value in drawn]
    if scenario.think_close_id >= 0 and size >= 3:
        ids[rng.randint(1, size - 2)] = scenario.think_close_id
    if never_stops or size > limit:
        return ids[:limit], {"type": "length", "length": limit}
    return [*ids[:-1], scenario.stop_id], {"type": "stop", "matched": scenario.stop_id}


_ANSWER = recorded("gen_return_prompt_token_ids")["body"]


def answer_for(
    rid: str, input_ids: list[int], output: tuple[list[int], dict[str, Any]]
) -> dict[str, Any]:
    """A whole `/generate` answer in the recorded shape."""
    output_ids, finish = output
    meta = {
        **_ANSWER["meta_info"],
        "id": rid,
        "finish_reason": finish,
        "prompt_tokens": len(input_ids),
        "completion_tokens": len(output_ids),
        "cached_tokens": 0,
        "weight_versions": [{"version": "default", "start": 0, "end": len(output_ids)}],
    }
    return {
        "text": "(the fake has no text)",
        "output_ids": output_ids,
        "meta_info": meta,
        "prompt_token_ids": list(input_ids),
    }


def _set_output(answer: dict[str, Any], ids: list[int]) -> None:
    answer["output_ids"] = ids
    answer["meta_info"]["completion_tokens"] = len(ids)


def _half(answer: dict[str, Any]) -> list[int]:
    ids = answer["output_ids"]
    return ids[: max(1, len(ids) // 2)]


def _abort_200(answer: dict[str, Any], _: Scenario) -> None:
    _set_output(answer, _half(answer))
    answer["meta_info"]["finish_reason"] = {
        "type": "abort",
        "message": "Aborted",
        "status_code": None,
        "err_type": None,
    }
    del answer["meta_info"]["prompt_tokens"]


def _nan_stop(answer: dict[str, Any], scenario: Scenario) -> None:
    _set_output(answer, [*_half(answer), scenario.stop_id])
    answer["meta_info"]["finish_reason"] = {"type": "stop", "matched": "NaN happened"}


def _clamped_length(answer: dict[str, Any], _: Scenario) -> None:
    _set_output(answer, _half(answer))
    length = len(answer["output_ids"])
    answer["meta_info"]["finish_reason"] = {"type": "length", "length": length}


def _wrong_rid(answer: dict[str, Any], _: Scenario) -> None:
    answer["meta_info"]["id"] = "somebody-else"


def _wrong_echo(answer: dict[str, Any], _: Scenario) -> None:
    answer["prompt_token_ids"] = [*answer["prompt_token_ids"][:-1], 0]


def _wrong_prompt_count(answer: dict[str, Any], _: Scenario) -> None:
    answer["meta_info"]["prompt_tokens"] -= 1


def _wrong_completion_count(answer: dict[str, Any], _: Scenario) -> None:
    answer["meta_info"]["completion_tokens"] += 1


def _missing_output_ids(answer: dict[str, Any], _: Scenario) -> None:
    del answer["output_ids"]


def _missing_meta(answer: dict[str, Any], _: Scenario) -> None:
    del answer["meta_info"]


def _missing_echo(answer: dict[str, Any], _: Scenario) -> None:
    del answer["prompt_token_ids"]


def _finish_null(answer: dict[str, Any], _: Scenario) -> None:
    answer["meta_info"]["finish_reason"] = None


def _no_output(answer: dict[str, Any], _: Scenario) -> None:
    _set_output(answer, [])


def _unknown_fields(answer: dict[str, Any], _: Scenario) -> None:
    answer["a_new_field"] = {"nested": [1, None]}
    answer["meta_info"]["another_new_field"] = 1.5


def _single_id(answer: dict[str, Any], scenario: Scenario) -> None:
    body = [scenario.first_plain_id] * (len(answer["output_ids"]) - 1)
    _set_output(answer, body + answer["output_ids"][-1:])


def _padded_ids(answer: dict[str, Any], scenario: Scenario) -> None:
    answer["output_ids"] = [scenario.vocab_size - 1, *answer["output_ids"][1:]]


def _out_of_vocabulary(answer: dict[str, Any], scenario: Scenario) -> None:
    answer["output_ids"] = [scenario.vocab_size + 5, *answer["output_ids"][1:]]


def _lost_think_close(answer: dict[str, Any], scenario: Scenario) -> None:
    plain, close = scenario.first_plain_id, scenario.think_close_id
    answer["output_ids"] = [plain if i == close else i for i in answer["output_ids"]]


def _stop_in_middle(answer: dict[str, Any], scenario: Scenario) -> None:
    answer["output_ids"] = [scenario.stop_id, *answer["output_ids"][1:]]


def _other_weights(answer: dict[str, Any], _: Scenario) -> None:
    """Weights were exchanged while the server served: the newer ones made the second half."""
    size = len(answer["output_ids"])
    answer["meta_info"]["weight_version"] = "step-2"
    answer["meta_info"]["weight_versions"] = [
        {"version": "default", "start": 0, "end": size // 2},
        {"version": "step-2", "start": size // 2, "end": size},
    ]


def _retracted(answer: dict[str, Any], _: Scenario) -> None:
    answer["meta_info"]["num_retractions"] = 2


ANSWER_FAULTS: dict[str, Callable[[dict[str, Any], Scenario], None]] = {
    "abort_200": _abort_200,
    "nan_stop": _nan_stop,
    "clamped_length": _clamped_length,
    "wrong_rid": _wrong_rid,
    "wrong_echo": _wrong_echo,
    "wrong_prompt_count": _wrong_prompt_count,
    "wrong_completion_count": _wrong_completion_count,
    "missing_output_ids": _missing_output_ids,
    "missing_meta": _missing_meta,
    "missing_echo": _missing_echo,
    "finish_null": _finish_null,
    "no_output": _no_output,
    "unknown_fields": _unknown_fields,
    "single_id": _single_id,
    "padded_ids": _padded_ids,
    "out_of_vocabulary": _out_of_vocabulary,
    "lost_think_close": _lost_think_close,
    "stop_in_middle": _stop_in_middle,
    "other_weights": _other_weights,
    "retracted": _retracted,
}
"""Faults inside an answer that comes with HTTP 200: each changes a good answer in place."""

ERROR_BODIES: dict[str, Any] = {
    "error_object": {"error": {"message": "scripted error"}},
    "error_text": {"error": "scripted error"},
    "error_flat": {"object": "error", "message": "scripted error", "param": None, "code": 400},
    "error_detail": {"detail": "scripted error"},
    "busy": recorded("gen_queue_full_2")["body"],
    "rate_limited": {"detail": "slow down"},
}
"""The four shapes of an error body, sent with `Fault.status`, and two with their own status."""

BROKEN = frozenset(
    {
        "slow",
        "hang",
        "die",
        "close_early",
        "not_http",
        "html_error",
        "reset_in_body",
        "truncated_json",
    }
)
"""Faults of the connection and of the process; the server itself plays them."""

OWN_STATUS = {"busy": 503, "rate_limited": 429}


def spoiled(answer: dict[str, Any], kind: str, scenario: Scenario) -> dict[str, Any]:
    """A copy of a good answer with one fault in it."""
    bad = copy.deepcopy(answer)
    ANSWER_FAULTS[kind](bad, scenario)
    return bad


def refusal(scenario: Scenario, body: dict[str, Any]) -> dict[str, Any] | None:
    """The error body (HTTP 400) that the real server gives to this request, or None."""
    sampling = body.get("sampling_params") or {}
    unknown = sorted(set(sampling) - SAMPLING_FIELDS)
    if unknown:
        return {"error": f"unknown field `{unknown[0]}`, expected one of `max_new_tokens`, …"}
    limit = sampling.get("max_new_tokens", 128)
    if limit < 0:
        return _refused(f"max_new_tokens must be at least 0, got {limit}.")
    if not 0 < sampling.get("top_p", 1.0) <= 1:
        return _refused(f"top_p must be in (0, 1], got {sampling['top_p']}.")
    size, context = len(body["input_ids"]), scenario.context_length
    if not size:
        return _refused("input_ids cannot be empty.")
    if size >= context:
        return _refused(
            f"The input ({size} tokens) is longer than the model's context length "
            f"({context} tokens)."
        )
    if size + limit > context:
        return _refused(
            f"Requested token count exceeds the model's maximum context length of {context} tokens."
        )
    if size > scenario.max_input_tokens:
        return _refused(
            f"Input length ({size} tokens) exceeds the maximum allowed length "
            f"({scenario.max_input_tokens} tokens). Use a shorter input or enable "
            "--allow-auto-truncate."
        )
    return None


def _refused(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


SAMPLING_FIELDS = frozenset(
    re.findall(r"`(\w+)`", recorded("gen_unknown_sampling_param")["body"]["error"])
) - {"bogus"}
"""Every sampling field that the real server knows, as its own error message lists them."""
