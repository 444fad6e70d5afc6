"""The output as text: broken characters, and whether it would survive a round trip.

Covers: U+FFFD, which a decoder writes for bytes that are no UTF-8; at the very end of an output
that was cut by length it is a character cut in half and passes. With `drift: true`, whether
encoding the text gives the ids back.
Does not cover: language, style, facts. Ids that cannot be decoded at all (`vocab` rejects those).

Reasons
    broken_character  flag  U+FFFD in the text, not only at the tail of a cut output
    drift             info  the text, encoded again, gives other ids (why ids are kept, not text)

Example: of 32,768 tokens of one byte-level vocabulary 193 are no UTF-8 by themselves: whoever
decodes token by token writes U+FFFD into text that was right.
"""

from collections.abc import Mapping
from typing import ClassVar

from runner.records import IdKind, Outcome, Sample, SampleContext, Severity, Verdict

REPLACEMENT = "\ufffd"


class Text:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "broken_character": Severity.FLAG,
        "drift": Severity.INFO,
    }

    def __init__(self, *, drift: bool = False) -> None:
        self._drift = drift

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; skip where there is no tokenizer or an id without a text."""
        undecodable = (context.kinds & (IdKind.OUTSIDE | IdKind.UNASSIGNED)).any()
        if context.decode is None or undecodable:
            return Verdict(outcome=Outcome.SKIP)
        text = context.decode(sample.output_ids)
        whole = text.rstrip(REPLACEMENT) if sample.finish == "length" else text
        if REPLACEMENT in whole:
            detail = (
                f"{whole.count(REPLACEMENT)} times, first at character {whole.index(REPLACEMENT)}"
            )
            return Verdict(outcome=Outcome.FAIL, reason="broken_character", detail=detail)
        if self._drift and context.encode is not None and text == whole:
            return _drift(context.encode(text), sample.output_ids)
        return Verdict(outcome=Outcome.PASS)


def _drift(again: list[int], ids: list[int]) -> Verdict:
    if again == ids:
        return Verdict(outcome=Outcome.PASS)
    first = next(
        (i for i, (a, b) in enumerate(zip(again, ids, strict=False)) if a != b),
        min(len(again), len(ids)),
    )
    detail = f"{len(again)} ids for {len(ids)}, other from position {first}"
    return Verdict(outcome=Outcome.FAIL, reason="drift", detail=detail)
