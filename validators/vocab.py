"""That every output id is one that the tokenizer assigns and a model may say.

Covers: ids outside the vocabulary; ids in the padded rows of the output layer, which decode to an
empty text and so look fine there; special tokens that never belong into an output (BOS, PAD, role
openers, media markers).
Does not cover: whether the prompt's ids are right.

Reasons
    out_of_vocabulary  reject  an id that the model's output layer does not even have
    unassigned         reject  an id of the output layer without a token in the tokenizer
    forbidden          reject  a special token that no answer may hold

Example: Qwen3's tokenizer ends at id 151668 while its output layer has 151936 rows; a damaged
kernel sampled from the rows between, at temperature 1, and every text view hid it.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from runner.records import Outcome, Sample, SampleContext, Severity, TokenProfile, Verdict

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool]]


class Vocab:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "out_of_vocabulary": Severity.REJECT,
        "unassigned": Severity.REJECT,
        "forbidden": Severity.REJECT,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the gravest reason that applies, with the first position in the detail."""
        profile = context.profile
        ids = np.asarray(sample.output_ids, dtype=np.int64)
        wrong = {
            "out_of_vocabulary": (ids < 0) | (ids >= profile.vocab_padded),
            "unassigned": ~_assigned(ids, profile),
            "forbidden": np.isin(ids, profile.forbidden_output_ids),
        }
        for reason, mask in wrong.items():
            if mask.any():
                return _fail(reason, ids, mask, profile)
        return Verdict(outcome=Outcome.PASS)


def _assigned(ids: Ids, profile: TokenProfile) -> Mask:
    mask = np.zeros(len(ids), dtype=np.bool)
    for start, end in profile.assigned:
        mask |= (ids >= start) & (ids < end)
    return mask


def _fail(
    reason: str,
    ids: Ids,
    mask: Mask,
    profile: TokenProfile,
) -> Verdict:
    first, token = int(mask.argmax()), int(ids[mask.argmax()])
    name = profile.special_tokens.get(token, "")
    detail = f"id {token} {name} at position {first}; {int(mask.sum())} such of {len(ids)}"
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=" ".join(detail.split()))
