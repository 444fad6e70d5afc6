"""How a sample ended: that the stop is a real one, and where a cut one was cut.

Covers: the matched stop is an id of the profile's stop set and the last id; no stop id earlier;
strings in place of a stop id; a length finish at another length than was asked for; a cut inside
the reasoning told apart from a cut inside the answer.
Does not cover: whether a complete answer is a good one.

Reasons
    nan_stop           reject  the engine met NaN logits and made up a stop
    text_stop          reject  a stop string matched although none was sent
    wrong_stop         reject  stopped on an id that is not in the stop set
    stop_not_last      reject  the stop id that the engine names is not the last id
    early_stop_id      reject  a stop id stands before the end (speculative decoding leaks do this)
    clamped_length     reject  cut at another length than the requested one
    length_on_stop     reject  says `length` below the request, yet ends in a stop id
    length_in_think    flag    cut at the requested length, inside the reasoning
    length_in_answer   flag    cut at the requested length, after the reasoning

Example: SGLang rewrites a NaN to the end token and reports {"type": "stop", "matched": "NaN
happened"}: the last id looks right, and only `matched` tells.
"""

from collections.abc import Mapping
from typing import ClassVar

from runner.records import NOT_TOLD, IdKind, Kind, Outcome, Sample, SampleContext, Severity, Verdict


class Finish:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "nan_stop": Severity.REJECT,
        "text_stop": Severity.REJECT,
        "wrong_stop": Severity.REJECT,
        "stop_not_last": Severity.REJECT,
        "early_stop_id": Severity.REJECT,
        "clamped_length": Severity.REJECT,
        "length_on_stop": Severity.REJECT,
        "length_in_think": Severity.FLAG,
        "length_in_answer": Severity.FLAG,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the first reason that applies, in the order above."""
        stops = [i for i in context.specials if context.kinds[i] & IdKind.STOP]
        early = [i for i in stops if i < len(context.kinds) - 1]
        if sample.finish == "stop":
            return self._stopped(sample, context, early)
        return self._cut(sample, context, stops, early)

    def _stopped(self, sample: Sample, context: SampleContext, early: list[int]) -> Verdict:
        if sample.matched_text:
            nan = "nan" in sample.matched_text.lower()
            return _fail("nan_stop" if nan else "text_stop", f"matched {sample.matched_text!r}")
        last = sample.output_ids[-1] if sample.output_ids else NOT_TOLD
        if sample.matched_token not in context.profile.stop_ids:
            return _fail("wrong_stop", f"matched {sample.matched_token}, last id {last}")
        if sample.matched_token != last:
            return _fail("stop_not_last", f"matched {sample.matched_token}, last id {last}")
        if early:
            return _fail("early_stop_id", f"at position {early[0]} of {len(sample.output_ids)}")
        return Verdict(outcome=Outcome.PASS)

    def _cut(
        self, sample: Sample, context: SampleContext, stops: list[int], early: list[int]
    ) -> Verdict:
        asked, got = sample.requested_max_new_tokens, len(sample.output_ids)
        told = got if sample.finish_length == NOT_TOLD else sample.finish_length
        if got != asked or told != asked:
            ends_in_stop = got < asked and stops[-1:] == [got - 1]
            reason = "length_on_stop" if ends_in_stop else "clamped_length"
            return _fail(reason, f"asked for {asked}, cut at {told}, {got} ids came")
        if early:
            return _fail("early_stop_id", f"at position {early[0]} of {got}")
        thinking = ends_in_reasoning(context)
        return _fail("length_in_think" if thinking else "length_in_answer", f"cut at {got} tokens")


def ends_in_reasoning(context: SampleContext) -> bool:
    """Whether the reasoning was still open at the end of the output."""
    if context.profile.channels is not None:
        kinds = [kind for kind, _, _ in context.segments if kind is not Kind.SPECIAL]
        return not kinds or kinds[-1] is Kind.REASONING
    for position in reversed(context.specials):
        token = int(context.output[position])
        if token == context.profile.think_close:
            return False
        if token == context.profile.think_open:
            return True
    return context.mode.think == "open"


def _fail(reason: str, detail: str) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=detail)
