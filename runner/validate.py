"""Judging: every configured validator on one sample, and the set-level ones on all of them.

A validator that breaks is recorded as outcome `error` with the exception's name; it rejects
nothing and stops nothing, since the sample itself may be fine. It is counted and shown.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from runner.idtable import IdTable, as_array
from runner.plugins import ConfiguredValidator
from runner.records import (
    Expected,
    IdKind,
    JudgedVerdict,
    Judgement,
    ModeProfile,
    Outcome,
    Prompt,
    Sample,
    SampleContext,
    SetFinding,
    Severity,
    TokenProfile,
    Verdict,
)
from runner.segments import segments_of, tally

_NOTHING_EXPECTED = Expected()


class TextOf(Protocol):
    """Ids to text and back; what `runner.render.Tokenizer` does."""

    def decode(self, ids: list[int]) -> str: ...

    def encode(self, text: str) -> list[int]: ...


class Judge:
    """A validator set bound to one run's token profile and mode. Not for several threads at once.

    Without `tokenizer` the validators whose subject is text skip; without a prompt those that
    compare with it do. `expected` is by category.
    """

    def __init__(
        self,
        validators: Sequence[ConfiguredValidator],
        profile: TokenProfile,
        mode: ModeProfile,
        *,
        tokenizer: TextOf | None = None,
        expected: Mapping[str, Expected] | None = None,
        weight_versions: frozenset[str] = frozenset(),
    ) -> None:
        self._all = validators
        self._validators = [v for v in validators if v.per_sample]
        self._set_level = [v for v in validators if v.set_level]
        self._profile = profile
        self._mode = mode
        self._tokenizer = tokenizer
        self.expected = expected or {}
        self.weight_versions = weight_versions
        """Of the run; told when its server is ready."""
        self._table = IdTable(profile)

    def context_of(self, sample: Sample, prompt: Prompt | None = None) -> SampleContext:
        """What the validators are told beside the sample."""
        output = as_array(sample.output_ids)
        kinds = self._table.kinds(output)
        specials = (kinds & IdKind.SPECIAL).nonzero()[0].tolist()
        tokenizer = None if (kinds & IdKind.OUTSIDE).any() else self._tokenizer
        return SampleContext(
            profile=self._profile,
            mode=self._mode,
            output=output,
            kinds=kinds,
            specials=specials,
            segments=segments_of(sample.output_ids, self._profile, self._mode, specials),
            input_kinds=self._table.kinds(as_array(sample.input_ids)),
            prompt=prompt,
            expected=self.expected.get(sample.category, _NOTHING_EXPECTED),
            weight_versions=self.weight_versions,
            decode=tokenizer.decode if tokenizer is not None else None,
            encode=tokenizer.encode if tokenizer is not None else None,
        )

    def judge(self, sample: Sample, prompt: Prompt | None = None) -> Judgement:
        """All verdicts on one sample; rejected when any failed check has severity reject."""
        context = self.context_of(sample, prompt)
        verdicts = {v.name: _verdict(v, sample, context) for v in self._validators}
        lengths = tally(context.segments)
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
            output_hash=_hash_of(context),
        )

    def conclude(self, read: Callable[[], Iterable[Judgement]]) -> list[SetFinding]:
        """What the set-level validators find over all judgements. `read` is called several times,
        and gives all of them each time. One that breaks gives one finding of severity "error"."""
        found: list[SetFinding] = []
        for one in self._set_level:
            try:
                findings = one.validator.conclude(read, self.expected)
            except Exception as error:  # noqa: BLE001 - as for one sample, see _verdict
                findings = [_broken_set(error)]
            for finding in findings:
                severity = finding.severity or one.severity.get(finding.reason, Severity.FLAG)
                found.append(
                    msgspec.structs.replace(finding, validator=one.name, severity=str(severity))
                )
        return found

    def describe(self) -> bytes:
        """The set as JSON, for verdicts/<set>/validators.json."""
        content = {
            v.name: {
                "class": f"{type(v.validator).__module__}.{type(v.validator).__qualname__}",
                "severity": v.severity,
            }
            for v in self._all
        }
        return msgspec.json.format(msgspec.json.encode(content), indent=2)


def _hash_of(context: SampleContext) -> str:
    """128 bits over the output ids, as 32-bit numbers: ids that do not fit are no ids."""
    content = context.output.astype("<i4").tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


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
        weight=verdict.weight,
        detail=verdict.detail,
    )


def _broken_set(error: Exception) -> SetFinding:
    return SetFinding(
        validator="",
        reason="validator_error",
        severity="error",
        category="",
        samples=0,
        share=0.0,
        detail=f"{type(error).__name__}: {error}"[:300],
    )
