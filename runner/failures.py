"""failures.jsonl read back: for each sample that failed, the last reason and all its requests."""

import msgspec

from runner.rundir import RunDir


class FailureSum(msgspec.Struct):
    """What is known of one sample that failed: its last reason, and its requests over all attempts.

    Only the newest `try_` counts: what an earlier one met says nothing of a sample asked again.
    """

    reason: str
    requests: int
    permanent: bool
    detail: str = ""
    try_: int = 0


class _Line(msgspec.Struct, rename={"try_": "try"}):
    sample_id: str
    reason: str
    detail: str = ""
    requests: int = 0
    permanent: bool = False
    try_: int = 0


def read_failures(run: RunDir) -> dict[str, FailureSum]:
    """The failed samples by id. A torn last line is left out (its sample is owed again)."""
    found: dict[str, FailureSum] = {}
    if not run.failures.is_file():
        return found
    decoder = msgspec.json.Decoder(_Line)
    with run.failures.open("rb") as file:
        for raw in file:
            try:
                line = decoder.decode(raw)
            except msgspec.DecodeError:  # torn by a crash
                continue
            before = found.get(line.sample_id)
            if before is not None and before.try_ > line.try_:
                continue
            earlier = before.requests if before is not None and before.try_ == line.try_ else 0
            found[line.sample_id] = FailureSum(
                line.reason, line.requests + earlier, line.permanent, line.detail, line.try_
            )
    return found


def failed_for_good(failure: FailureSum | None, max_attempts: int) -> bool:
    """Whether a sample is not asked again by itself."""
    return failure is not None and (failure.permanent or failure.requests >= max_attempts)
