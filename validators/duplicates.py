"""Equal outputs and equal prompts, found exactly over the whole run.

Covers: different prompts with the same output ids; the same prompt in several rows; several samples
of one prompt (n > 1) that came out equal, which greedy sampling always does. Short outputs are left
out: "4" and its stop are right more than once.
Does not cover: outputs that are nearly the same; single samples: these reasons are found when all
samples are there and lie in `set.json` of the verdict set, so `runs show` and the report list them
with some ids, gates measure them, and `decode`, `requeue` and `export` cannot choose by them.

Works on hashes from the judgements: 16 bytes a sample are held (a 64-bit hash of the output and
one of the prompt), and what they find equal is compared by 128 bits when the examples are read.

Reasons
    same_output  flag  samples of different prompts have equal outputs
    same_sample  flag  samples of one prompt have equal outputs
    same_prompt  flag  different rows hold the same messages and tools

Example: a server that ran out of cache answered a whole batch with the first request's tokens: each
row was a good answer, to one and the same question.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from runner.records import Expected, Judgement, SetFinding, Severity

EXAMPLES = 4
"""Sample ids that a finding names."""


class Duplicates:
    """See the module. Outputs below `shortest` tokens are not compared."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "same_output": Severity.FLAG,
        "same_sample": Severity.FLAG,
        "same_prompt": Severity.FLAG,
    }

    def __init__(self, *, shortest: int = 16) -> None:
        self._shortest = shortest

    def conclude(
        self, read: Callable[[], Iterable[Judgement]], expected: Mapping[str, Expected]
    ) -> list[SetFinding]:
        """A finding for each reason and category that has some."""
        outputs, prompts = array("Q"), array("Q")
        for judgement in read():
            if self._is_compared(judgement):
                outputs.append(_u64(judgement.output_hash))
            prompts.append(_u64(judgement.prompt_hash))
        repeated = _repeated(outputs), _repeated(prompts)
        if not repeated[0] and not repeated[1]:
            return []
        return self._findings(read, *repeated)

    def _is_compared(self, judgement: Judgement) -> bool:
        """Not short, and of a set that was made with hashes."""
        return judgement.output_tokens >= self._shortest and bool(judgement.output_hash)

    def _findings(
        self, read: Callable[[], Iterable[Judgement]], outputs: set[int], prompts: set[int]
    ) -> list[SetFinding]:
        """Read again, and group what the hashes found: only members of a group are held."""
        samples: dict[str, int] = defaultdict(int)
        by_output: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        by_prompt: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for judgement in read():
            samples[judgement.category] += 1
            one = (judgement.category, judgement.sample_id, judgement.prompt_hash)
            if self._is_compared(judgement) and _u64(judgement.output_hash) in outputs:
                by_output[judgement.output_hash].append(one)
            if _u64(judgement.prompt_hash) in prompts:
                by_prompt[judgement.prompt_hash].append(one)
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for group in by_output.values():
            reason = "same_output" if len({p for _, _, p in group}) > 1 else "same_sample"
            _note(found, reason, group if len(group) > 1 else [])
        for group in by_prompt.values():
            _note(found, "same_prompt", group if len({_row(i) for _, i, _ in group}) > 1 else [])
        return [_finding(r, c, ids, samples[c]) for (r, c), ids in sorted(found.items())]


def _u64(text: str) -> int:
    return int(text[:16] or "0", 16)


def _row(sample_id: str) -> str:
    """A sample id without its K: the row."""
    return sample_id.rpartition("-")[0]


def _repeated(hashes: "array[int]") -> set[int]:
    ordered: npt.NDArray[Any] = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


def _note(
    found: dict[tuple[str, str], list[str]], reason: str, group: list[tuple[str, str, str]]
) -> None:
    for category, sample_id, _ in group:
        found[reason, category].append(sample_id)


def _finding(reason: str, category: str, ids: list[str], samples: int) -> SetFinding:
    return SetFinding(
        validator="",
        reason=reason,
        category=category,
        samples=len(ids),
        share=len(ids) / samples,
        examples=ids[:EXAMPLES],
    )
