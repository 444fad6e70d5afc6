"""The chat API of an OpenAI-compatible server, for comparison only: what it makes of an answer.

It parses, moves and drops what the model said, which is why no data is ever taken from it.
"""

from typing import Any

from runner.engines.base import Endpoint, EngineFault, FaultKind
from runner.engines.refusals import fault_for_status
from runner.engines.wire import Wire, parse_json
from runner.records import NOT_TOLD, Record


class ChatAnswer(Record, frozen=True, kw_only=True):
    """One choice as the API gives it. Texts that it does not give are "", counts NOT_TOLD."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = []
    finish_reason: str = ""
    prompt_tokens: int = NOT_TOLD
    completion_tokens: int = NOT_TOLD


class ChatApi:
    """`/v1/chat/completions` of one endpoint. Close it when done."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._wire = Wire(endpoint, timeout_s=None, max_connections=2)

    async def ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        *,
        max_tokens: int,
        template_kwargs: dict[str, Any],
    ) -> ChatAnswer:
        """One greedy answer. Raises EngineFault."""
        body: dict[str, Any] = {
            "model": "default",
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0.0,
            **({"tools": tools} if tools else {}),
            **({"chat_template_kwargs": template_kwargs} if template_kwargs else {}),
        }
        status, answer = await self._wire.post("/v1/chat/completions", body)
        if status != 200:
            raise fault_for_status(status, answer.decode("utf-8", "replace"))
        return read_answer(parse_json(answer))

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()


def read_answer(body: Any) -> ChatAnswer:
    """The first choice of a parsed answer. Raises EngineFault when there is none."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        usage = body.get("usage") or {}
        return ChatAnswer(
            content=message.get("content") or "",
            reasoning=message.get("reasoning_content") or message.get("reasoning") or "",
            tool_calls=message.get("tool_calls") or [],
            finish_reason=choice.get("finish_reason") or "",
            prompt_tokens=usage.get("prompt_tokens", NOT_TOLD),
            completion_tokens=usage.get("completion_tokens", NOT_TOLD),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise EngineFault(FaultKind.UNUSABLE, "not_object", detail=repr(error)) from error
