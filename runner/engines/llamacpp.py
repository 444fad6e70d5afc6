"""llama.cpp's `/completion`: ids in, ids out, with every sampling default of its own overridden.

Found with a real server (xllamacpp 2026.10.11549):
- It ends at the ids that its model file marks as end of generation (EOG) and at nothing else: there
  is no parameter for stop ids. `tokens` holds that end id, `stop_type` is then "eos", also when it
  is the last allowed token. **A stop id of ours that is no EOG does not stop it**: generation goes
  on past it, the ids are returned as they are, and validators see a stop id before the end.
  `EngineInfo.eog_ids` tells the EOG ids, so that a run can be refused before it starts.
- `tokens_evaluated` is the length of the whole prompt, whatever was in the cache.
- A prompt of n_ctx or more is refused; at the end of the context it stops with `limit` and
  `truncated`: a clamped length, shown by `finish_length` below what was asked.
- `n_predict` 0 makes one token, and there is no minimum: both are refused here, unsent.
- The penalties look back over prompt and output (SGLang: output only), so only neutral ones give
  comparable samples.
- It echoes neither the rid nor the prompt's ids.
"""

from runner.engines.base import Endpoint, EngineFault, EngineInfo, ServerLoad
from runner.engines.contract import check_prompt
from runner.engines.llamacpp_contract import (
    KIND,
    OVERRIDES,
    check_sampling,
    parse_llamacpp,
    read_eog_ids,
    read_info,
    read_load,
    request_body,
)
from runner.engines.redact import redacted
from runner.engines.refusals import fault_for_status
from runner.engines.wire import HEALTHY, Wire, parse_json
from runner.records import Completion, SamplingParams


class LlamaCppEngine:
    """One llama.cpp server. Close it when done."""

    kind = KIND

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
        return f"LlamaCppEngine({self._wire.url!r})"

    async def generate(
        self, rid: str, input_ids: list[int], sampling: SamplingParams
    ) -> Completion:
        """Send one prompt. The server is not told `rid`. Raises EngineFault."""
        check_prompt(input_ids, vocab_size=self._vocab_size)
        check_sampling(sampling)
        status, body = await self._wire.post("/completion", request_body(input_ids, sampling))
        if status != 200:
            raise fault_for_status(status, body.decode("utf-8", "replace"))
        return parse_llamacpp(parse_json(body), rid=rid, input_ids=input_ids)

    async def info(self) -> EngineInfo:
        """The server's limits and its EOG ids, for which it generates one token.

        Raises EngineFault when it does not answer at all.
        """
        answers = {
            "props": await self._wire.get_object("/props"),
            "models": await self._wire.get_object("/v1/models"),
        }
        told_answers = {
            name: redacted(answer, secrets=self._secrets)
            for name, answer in answers.items()
            if answer is not None
        }
        return read_info(told_answers, eog_ids=await self._eog_ids())

    async def load(self) -> ServerLoad | None:
        """What the slots are doing; None when the server was started without `/slots`."""
        slots = await self._wire.get_object("/slots")
        status, metrics = await self._wire.get("/metrics")
        return read_load(slots, metrics.decode("utf-8", "replace") if status == 200 else "")

    async def healthy(self) -> bool:
        """True when the model is loaded."""
        try:
            status, _ = await self._wire.get("/health")
        except EngineFault:
            return False
        return status in HEALTHY

    async def close(self) -> None:
        """Close all connections; requests in flight end as `disconnected`."""
        await self._wire.close()

    async def _eog_ids(self) -> list[int] | None:
        # With ignore_eos the server bans its EOG ids by a bias, and shows the biases it used.
        ask = {**OVERRIDES, "prompt": [0], "n_predict": 1, "ignore_eos": True}
        status, body = await self._wire.post("/completion", ask)
        return read_eog_ids(parse_json(body)) if status == 200 else None
