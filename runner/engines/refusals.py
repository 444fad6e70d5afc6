"""What an HTTP status other than 200 on a generate route means. Pure: status and text to fault.

Error bodies come in four shapes from one and the same SGLang (0.5.23), and llama.cpp uses the
first: {"error": {"message": M}}, {"error": M}, {"object": "error", "message": M}, {"detail": M}.
Neither server gives "too long" a code of its own that both share, so the messages are matched.
"""

import orjson

from runner.engines.base import EngineFault, FaultKind
from runner.engines.contract import as_text

TOO_LONG = (
    "longer than the model's context length",
    "maximum context length",
    "exceeds the maximum allowed length",
    "exceeds the available context size",
)
"""The three messages of SGLang 0.5.23 and the one of llama.cpp; both send no code for it."""


def error_message(text: str) -> str:
    """The message in an error body, whatever its shape; other text as it is."""
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.strip()[:500]
    for value in _candidates(body):
        if value is not None:
            return as_text(value)[:500]
    return text.strip()[:500]


def _candidates(body: object) -> list[object]:
    if not isinstance(body, dict):
        return []
    error = body.get("error")
    inner = error.get("message") if isinstance(error, dict) else None
    return [inner, error, body.get("message"), body.get("detail")]


def fault_for_status(status: int, text: str) -> EngineFault:
    """What an HTTP status other than 200 on the generate route means. `text` is the body."""
    kind, reason = _classify(status, error_message(text))
    return EngineFault(kind, reason, detail=f"HTTP {status}: {error_message(text)}", raw=text)


_BY_STATUS = {
    401: (FaultKind.DENIED, "denied"),
    403: (FaultKind.DENIED, "denied"),
    404: (FaultKind.DENIED, "no_route"),
    405: (FaultKind.DENIED, "no_route"),
    413: (FaultKind.REFUSED, "too_large"),
    429: (FaultKind.BUSY, "rate_limited"),
    # A client's cancel: 200 with an abort today, 499 in a change that SGLang has under way.
    499: (FaultKind.UNUSABLE, "abort"),
    500: (FaultKind.UNUSABLE, "http_500"),
    502: (FaultKind.UNREACHABLE, "bad_gateway"),
    503: (FaultKind.BUSY, "queue_full"),
    # A proxy gave up waiting: counted, or a sample that is too slow for it would be sent for ever.
    504: (FaultKind.UNUSABLE, "timeout"),
}


def _classify(status: int, message: str) -> tuple[FaultKind, str]:
    if status in (400, 422):
        return _classify_refusal(message)
    if 300 <= status < 400:
        return FaultKind.DENIED, "no_route"
    return _BY_STATUS.get(status, (FaultKind.UNUSABLE, "http_other"))


def _classify_refusal(message: str) -> tuple[FaultKind, str]:
    if any(part in message for part in TOO_LONG):
        return FaultKind.REFUSED, "too_long"
    # The earlier request of this name is still running, so this no is not for ever.
    if message.startswith("Duplicate request ID"):
        return FaultKind.UNUSABLE, "duplicate_rid"
    return FaultKind.REFUSED, "bad_request"
