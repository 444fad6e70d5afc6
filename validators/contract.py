"""That the engine's answer is about what was asked, proven again from what was stored.

Covers: counts that the engine told against the ids themselves, an empty output, more ids than were
asked for, other weights than those that the run began with, cached tokens beyond the prompt. An
answer that fails the first of these while a run is on becomes no sample at all (it is asked for
again); here it shows what was written by an older version, by other software, or altered since.
Does not cover: the ids themselves (`vocab`), how the answer ended (`finish`), whether the engine
saw the prompt that was sent where it does not echo it.

Reasons
    empty_output        reject  not one output id
    prompt_count        reject  the engine counted other prompt tokens than were sent
    completion_count    reject  the engine counted other output tokens than came
    too_many_ids        reject  more ids than max_new_tokens
    weights_changed     reject  another weight version than the server told at the run's start
    cached_over_prompt  info    more cached tokens than the prompt has (happens after a retraction)

Example: with one request in a batch retracted for lack of memory, SGLang counted the same cached
prefix twice and told more cached tokens than the prompt had; the ids were right.
"""

from collections.abc import Mapping
from typing import ClassVar

from runner.records import Outcome, Sample, SampleContext, Severity, Verdict


class Contract:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "empty_output": Severity.REJECT,
        "prompt_count": Severity.REJECT,
        "completion_count": Severity.REJECT,
        "too_many_ids": Severity.REJECT,
        "weights_changed": Severity.REJECT,
        "cached_over_prompt": Severity.INFO,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the first reason that applies, in the order above."""
        sent, came = len(sample.input_ids), len(sample.output_ids)
        asked = sample.requested_max_new_tokens
        if not came:
            return _fail("empty_output", "no output ids")
        if sample.prompt_tokens != sent:
            return _fail("prompt_count", f"counted {sample.prompt_tokens}, sent {sent}")
        if sample.completion_tokens != came:
            return _fail("completion_count", f"counted {sample.completion_tokens}, {came} came")
        if came > asked:
            return _fail("too_many_ids", f"{came} ids, {asked} were asked for")
        allowed = context.weight_versions
        if allowed and sample.weight_version and sample.weight_version not in allowed:
            told = f"{sample.weight_version!r}; the run has {', '.join(sorted(allowed))}"
            return _fail("weights_changed", told)
        if sample.cached_tokens > sent:
            return _fail("cached_over_prompt", f"{sample.cached_tokens} cached of {sent}")
        return Verdict(outcome=Outcome.PASS)


def _fail(reason: str, detail: str) -> Verdict:
    return Verdict(outcome=Outcome.FAIL, reason=reason, detail=detail)
