"""Judging: every configured validator on one sample, and the whole of a run again from its files.

A validator that breaks is recorded as outcome `error` with the exception's name; it rejects
nothing and stops nothing, since the sample itself may be fine. It is counted and shown.
"""

from collections.abc import Callable, Sequence

import msgspec

from runner.plugins import ConfiguredValidator
from runner.records import (
    JudgedVerdict,
    Judgement,
    ModeProfile,
    Outcome,
    Prompt,
    Sample,
    SampleContext,
    Severity,
    TokenProfile,
    Verdict,
)
from runner.segments import lengths_of


class Judge:
    """A validator set bound to one run's token profile and mode."""

    def __init__(
        self, validators: Sequence[ConfiguredValidator], profile: TokenProfile, mode: ModeProfile
    ) -> None:
        self._validators = validators
        self._profile = profile
        self._mode = mode

    def judge(self, sample: Sample, prompt: Prompt | None = None) -> Judgement:
        """All verdicts on one sample; rejected when any failed check has severity reject."""
        context = SampleContext(profile=self._profile, mode=self._mode, prompt=prompt)
        verdicts = {v.name: _verdict(v, sample, context) for v in self._validators}
        lengths = lengths_of(sample.output_ids, self._profile, self._mode)
        return Judgement(
            sample_id=sample.sample_id,
            prompt_hash=sample.prompt_hash,
            category=sample.category,
            try_=sample.try_,
            finish=sample.finish,
            prompt_tokens=len(sample.input_ids),
            output_tokens=len(sample.output_ids),
            reasoning_tokens=lengths.reasoning,
            answer_tokens=lengths.answer,
            tool_call_tokens=lengths.tool_call,
            rejected=any(v.severity == Severity.REJECT for v in verdicts.values()),
            verdicts=verdicts,
        )

    def describe(self) -> bytes:
        """The set as JSON, for verdicts/<set>/validators.json."""
        content = {
            v.name: {
                "class": f"{type(v.validator).__module__}.{type(v.validator).__qualname__}",
                "severity": v.severity,
            }
            for v in self._validators
        }
        return msgspec.json.format(msgspec.json.encode(content), indent=2)


def _verdict(
    configured: ConfiguredValidator, sample: Sample, context: SampleContext
) -> JudgedVerdict:
    check: Callable[[Sample, SampleContext], Verdict] = configured.validator.check
    try:
        verdict = check(sample, context)
    except Exception as error:  # noqa: BLE001 - the one place where a plugin's own bug is caught
        detail = f"{type(error).__name__}: {error}"
        return JudgedVerdict(outcome=Outcome.ERROR, reason="validator_error", detail=detail[:300])
    severity = ""
    if verdict.outcome is Outcome.FAIL:
        severity = configured.severity.get(verdict.reason, Severity.FLAG).value
    return JudgedVerdict(
        outcome=verdict.outcome,
        reason=verdict.reason,
        severity=severity,
        score=verdict.score,
        detail=verdict.detail,
    )
