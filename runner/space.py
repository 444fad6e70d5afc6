"""Is there room on the disk for what is owed? A figure before hours of GPU time, not after."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from runner.config import Config
from runner.errors import MachineError
from runner.ledger import OwedPart, owed_by_part
from runner.records import Record
from runner.rundir import RunDir, RunState

BYTES_PER_TOKEN = 1.3
"""A token on disk: 1.18 at level 3 on realistic ids (benchmarks/shards.py), and some more."""
BYTES_PER_SAMPLE = 700
"""Its other keys, its verdicts and its index rows, compressed."""
MARGIN_BYTES = 256 * 2**20
"""For logs, the report and whatever else grows."""


class Share(Record, frozen=True, kw_only=True):
    """One part of what is owed. `output_tokens` is the mean that its answers are expected to have;
    `most_tokens` the longest that one can be."""

    samples: int
    prompt_tokens: int
    output_tokens: float | None
    most_tokens: int


class Need(Record, frozen=True, kw_only=True):
    """Bytes: `likely` by the lengths that are expected or were seen, None where nothing tells
    them; `most` if every answer were as long as it may be."""

    likely: int | None
    most: int


def shares_of(
    owed: Mapping[str, OwedPart],
    expected: Mapping[str, int | None],
    *,
    made_mean: float | None,
    most_tokens: int,
) -> dict[str, Share]:
    """By part. Where the config expects no length, the mean of what the run has made stands for
    it (None: it has made nothing yet)."""

    def mean(part: str) -> float | None:
        told = expected.get(part)
        return made_mean if told is None else float(min(told, most_tokens))

    return {
        name: Share(
            samples=one.samples,
            prompt_tokens=one.prompt_tokens,
            output_tokens=mean(name),
            most_tokens=most_tokens,
        )
        for name, one in owed.items()
    }


def need_of(shares: Mapping[str, Share]) -> Need:
    """What the owed samples will take on disk."""
    likely = sum(_bytes(one, one.output_tokens or 0.0) for one in shares.values())
    told = all(one.output_tokens is not None for one in shares.values() if one.samples)
    most = sum(_bytes(one, one.most_tokens) for one in shares.values())
    return Need(likely=likely if told else None, most=most)


def _bytes(share: Share, each: float) -> int:
    tokens = share.prompt_tokens + share.samples * each
    return int(tokens * BYTES_PER_TOKEN + share.samples * BYTES_PER_SAMPLE)


def check_space(run: RunDir, config: Config, state: RunState) -> str:
    """A warning where what a run owes may not fit, or "".

    Raises:
        MachineError: what is likely to come does not fit.
    """
    owed = owed_by_part(
        run,
        max_attempts=config.client.retry.max_attempts,
        retry_failed=config.resume.retry_failed,
    )
    made = state.counts.ok + state.counts.rejected
    shares = shares_of(
        owed,
        {name: part.expected.output_tokens for name, part in config.category.parts.items()},
        made_mean=state.tokens.output / made if made else None,
        most_tokens=config.sampling.max_new_tokens,
    )
    return compare(need_of(shares), shutil.disk_usage(run.path).free, run.path)


def compare(need: Need, free: int, folder: Path) -> str:
    """`check_space` on figures; `free` in bytes."""
    room = max(0, free - MARGIN_BYTES)
    if need.likely is not None and need.likely > room:
        raise MachineError(
            "The disk has no room for what this run owes.",
            where=str(folder),
            found=f"{_text(free)} free",
            allowed=f"about {_text(need.likely)} for the samples that are owed, and "
            f"{_text(MARGIN_BYTES)} for the rest",
            next_step="make room, or put paths.outputs on another disk, or lower category.count; "
            "the same command continues",
        )
    if need.most > room:
        return (
            f"disk: {_text(free)} free; what is owed can take up to {_text(need.most)}. When the "
            "disk is full the run stops, with all that was written kept"
        )
    return ""


def _text(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
