"""SGLang's native `/generate`: one prompt of ids in, its exact output ids out.

One request carries one prompt, n = 1, its own rid, and is never streamed (streamed ids were lost or
multiplied in several releases). Every sampling parameter is sent, since the server's own defaults
(128 new tokens) and its `--preferred-sampling-params` fill in what is missing.
`skip_special_tokens` and its kin are not sent: they change the text, which is not used, never ids.

Optional routes are asked under their new and their old names; one that is missing is no error.
"""

from typing import Any

import msgspec

from runner.engines.base import Endpoint, EngineFault, EngineInfo, ServerLoad
from runner.engines.contract import check_prompt, parse_sglang, told
from runner.engines.redact import redacted
from runner.engines.refusals import fault_for_status
from runner.engines.wire import HEALTHY, Wire, parse_json
from runner.records import NOT_TOLD, Completion, SamplingParams

SERVER_INFO_ROUTES = ("/server_info", "/get_server_info")
MODEL_INFO_ROUTES = ("/model_info", "/get_model_info")
LOAD_ROUTES = ("/v1/loads", "/get_load")
"""New name first; the old one was the only one before 0.5.6 (0.5.21 for loads)."""


class SglangEngine:
    """One SGLang server (or router). Close it when done."""

    kind = "sglang"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        vocab_size: int,
        timeout_s: float | None = None,
        max_connections: int,
    ) -> None:
        self._wire = Wire(endpoint, timeout_s=timeout_s, max_connections=max_connections)
        self._vocab_size = vocab_size
        self._secrets = frozenset([endpoint.api_key] if endpoint.api_key else [])

    def __repr__(self) -> str:
        return f"SglangEngine({self._wire.url!r})"

    async def generate(
        self, rid: str, input_ids: list[int], sampling: SamplingParams
    ) -> Completion:
        """Send one prompt. `rid` must be new for each request. Raises EngineFault."""
        check_prompt(input_ids, vocab_size=self._vocab_size)
        status, body = await self._wire.post("/generate", request_body(rid, input_ids, sampling))
        if status != 200:
            raise fault_for_status(status, body.decode("utf-8", "replace"))
        return parse_sglang(parse_json(body), rid=rid, input_ids=input_ids)

    async def info(self) -> EngineInfo:
        """The server's limits and versions. Raises EngineFault when it does not answer at all."""
        answers = {
            "server_info": await self._wire.get_object(*SERVER_INFO_ROUTES),
            "model_info": await self._wire.get_object(*MODEL_INFO_ROUTES),
            "models": await self._wire.get_object("/v1/models"),
        }
        return read_info(
            {
                name: redacted(answer, secrets=self._secrets)
                for name, answer in answers.items()
                if answer is not None
            }
        )

    async def load(self) -> ServerLoad | None:
        """What the server is doing; None when it does not tell."""
        return read_load(await self._wire.get_object(*LOAD_ROUTES))

    async def healthy(self) -> bool:
        """SGLang's health route generates one token: True means that the scheduler answers."""
        try:
            status, _ = await self._wire.get("/health")
        except EngineFault:
            return False
        return status in HEALTHY

    async def close(self) -> None:
        """Close all connections; requests in flight end as `disconnected`."""
        await self._wire.close()


def request_body(rid: str, input_ids: list[int], sampling: SamplingParams) -> dict[str, Any]:
    """The body of one `/generate` request. Unknown top-level keys are ignored without a word, so
    a test compares these with a recorded request that the server honoured."""
    return {
        "rid": rid,
        "input_ids": input_ids,
        "sampling_params": {**msgspec.to_builtins(sampling), "n": 1},
        "stream": False,
        "return_prompt_token_ids": True,
    }


def read_info(answers: dict[str, Any]) -> EngineInfo:
    """The limits in the answers of the optional routes; whatever is missing is NOT_TOLD."""
    server = _object(answers.get("server_info"))
    model = _object(answers.get("model_info"))
    served = _object(_first(_object(answers.get("models")).get("data")))
    state = _object(_first(server.get("internal_states")))
    context = told(served.get("max_model_len"))
    return EngineInfo(
        kind=SglangEngine.kind,
        version=_text(server.get("version")),
        model=_text(model.get("model_path") or server.get("model_path") or served.get("id")),
        context_length=context if context > 0 else told(server.get("context_length")),
        max_input_tokens=told(server.get("max_req_input_len")),
        max_total_tokens=told(server.get("max_total_num_tokens")),
        max_running=told(state.get("effective_max_running_requests_per_dp")),
        weight_version=_text(model.get("weight_version") or server.get("weight_version")),
        raw=answers,
    )


def read_load(answer: object) -> ServerLoad | None:
    """Sums over the data-parallel ranks (the fullest one for the usage); None for no answer.

    `/v1/loads` answers {"loads": [{...}]}, the older `/get_load` a list of ranks.
    """
    ranks = answer.get("loads") if isinstance(answer, dict) else answer
    rows = [row for row in ranks if isinstance(row, dict)] if isinstance(ranks, list) else []
    if not rows:
        return None
    speeds = _floats(rows, "gen_throughput")
    return ServerLoad(
        running=_sum(rows, "num_running_reqs", "num_reqs"),
        queued=_sum(rows, "num_waiting_reqs"),
        used_tokens=_sum(rows, "num_used_tokens", "num_tokens"),
        token_usage=max(_floats(rows, "token_usage"), default=None),
        output_tokens_per_s=sum(speeds) if speeds else None,
        cache_hit_rate=max(_floats(rows, "cache_hit_rate"), default=None),
    )


def _sum(rows: list[dict[str, Any]], *names: str) -> int:
    for name in names:
        values = [told(row.get(name)) for row in rows]
        if all(value != NOT_TOLD for value in values):
            return sum(values)
    return NOT_TOLD


def _floats(rows: list[dict[str, Any]], name: str) -> list[float]:
    values = [row.get(name) for row in rows]
    return [float(value) for value in values if isinstance(value, int | float)]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
