"""What the plan takes: plan/request.json, and which lines of plan/ it selects as it now stands.

A larger plan only adds lines; a smaller one leaves its lines where they are, and they no longer
count. Which ones do is worked out from each line once and kept in plan/selection-DIGEST.npy, named
after the request and the files that it was worked out from: a stale one has another name, and a
missing one is worked out again.
"""

import hashlib
import io
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from runner.budget import WHOLE
from runner.records import PlannedSample, Record
from runner.rundir import RunDir, replace_file
from runner.shards import ShardReader

SELECTION_DTYPE = np.dtype([("part", "<u2"), ("wanted", "?"), ("skipped", "?")])
"""`part` is the place in `PlanRequest.names`; NO_PART for one that the plan no longer names."""
NO_PART = 2**16 - 1
MAX_U64 = 2**64 - 1
"""The threshold of a part of which all rows are wanted."""


class PartRequest(Record, frozen=True, kw_only=True):
    """What the plan takes from one part: rows whose selection hash is at most `threshold`."""

    fingerprint: str
    rows: int
    count: int | None
    n: int
    threshold: int


class PlanRequest(Record, frozen=True, kw_only=True):
    """plan/request.json, written last: it exists when the plan is whole."""

    seed: int
    parts: dict[str, PartRequest]
    budget_tokens: int | None = None
    budget_parts: dict[str, int] = {}

    @property
    def budgets(self) -> dict[str, int | None]:
        """Output tokens by part; WHOLE is the run's."""
        return {WHOLE: self.budget_tokens, **self.budget_parts}

    @property
    def names(self) -> list[str]:
        """The parts, by which `SELECTION_DTYPE` numbers them."""
        return list(self.parts)

    def selects(self, planned: "PlannedSample | PlanLine") -> bool:
        """Whether the plan as it now stands still wants this sample (else it is unplanned)."""
        part = self.parts.get(planned.category)
        if part is None or planned.k >= part.n:
            return False
        return part.threshold == MAX_U64 or (
            selection_hash(self.seed, planned.category, planned.source, planned.row)
            <= part.threshold
        )


def selection_hash(seed: int, category: str, source: str, row: int) -> int:
    """A u64 that orders the rows of a source; a plan takes the lowest ones first."""
    digest = hashlib.blake2b(f"{seed}/{category}/{source}/{row}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def read_request(run: RunDir) -> PlanRequest | None:
    """The plan's request, or None while there is no whole plan."""
    path = run.plan / "request.json"
    return msgspec.json.decode(path.read_bytes(), type=PlanRequest) if path.is_file() else None


class PlanLine(msgspec.Struct, gc=False):
    """What selecting needs of a line of plan/."""

    category: str
    row: int
    k: int
    source: str = ""
    skip: str = ""


def selection_of(run: RunDir, request: PlanRequest, plan: ShardReader) -> npt.NDArray[Any]:
    """For each line of plan/ an element of SELECTION_DTYPE. Decodes them only if it must."""
    path = run.plan / _file_name(run)
    if path.is_file():
        found: npt.NDArray[Any] = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if found.dtype == SELECTION_DTYPE and len(found) == len(plan):
            return found
    return _work_out(request, plan)


def keep_selection(run: RunDir) -> None:
    """Work out and keep it for the plan as it is now. Under the run's lock."""
    request = read_request(run)
    name = _file_name(run)
    if request is None or (run.plan / name).is_file():
        return
    for stale in run.plan.glob("selection-*.npy"):
        stale.unlink()
    buffer = io.BytesIO()
    np.save(buffer, _work_out(request, ShardReader(run.plan)), allow_pickle=False)
    replace_file(run.plan / name, buffer.getvalue())


def _file_name(run: RunDir) -> str:
    digest = hashlib.sha256()
    for path in (run.plan / "request.json", run.plan / "manifest.json"):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return f"selection-{digest.hexdigest()[:16]}.npy"


def _work_out(request: PlanRequest, plan: ShardReader) -> npt.NDArray[Any]:
    numbers = {name: number for number, name in enumerate(request.names)}
    decode = msgspec.json.Decoder(PlanLine).decode
    lines = (decode(raw) for raw in plan.lines())
    rows = (
        (numbers.get(one.category, NO_PART), request.selects(one), bool(one.skip)) for one in lines
    )
    return np.fromiter(rows, dtype=SELECTION_DTYPE)
