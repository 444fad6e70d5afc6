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

from runner.records import IdKind, Outcome, Sample, SampleContext, Severity, Verdict

_BITS = {
    "out_of_vocabulary": IdKind.OUTSIDE,
    "unassigned": IdKind.UNASSIGNED,
    "forbidden": IdKind.FORBIDDEN,
}
_ANY = IdKind.OUTSIDE | IdKind.UNASSIGNED | IdKind.FORBIDDEN


class Vocab:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = dict.fromkeys(_BITS, Severity.REJECT)

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the gravest reason that applies, with the first position in the detail."""
        if not (context.kinds & _ANY).any():
            return Verdict(outcome=Outcome.PASS)
        reason = next(name for name, bit in _BITS.items() if (context.kinds & bit).any())
        mask = (context.kinds & _BITS[reason]) > 0
        first = int(mask.argmax())
        token = sample.output_ids[first]
        name = context.profile.special_tokens.get(token, "")
        detail = f"id {token} {name} at position {first}; {int(mask.sum())} such of {len(mask)}"
        return Verdict(outcome=Outcome.FAIL, reason=reason, detail=" ".join(detail.split()))
