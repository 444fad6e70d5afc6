"""What is exported and what is left out: decided from a sample's judgement alone. Pure.

A finding is one failed (or broken) check of one validator. It is named by its severity (`reject`,
`flag`, `info`, `error`), by its reason (`schema`), or by both names (`tool_calls.schema`). Rejected
samples are left out and everything else is kept, an output cut by length too; `drop` and `keep`
change that, and `keep` is the stronger of the two.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from runner.errors import ConfigError
from runner.records import Finish, JudgedVerdict, Outcome, Record, Severity

BROKEN = "error"
"""The severity under which a validator that broke is named."""
SEVERITIES = (*(severity.value for severity in Severity), BROKEN)
SHOWN = (Severity.REJECT.value, Severity.FLAG.value, BROKEN)
"""Severities of findings that an exported sample carries as flags."""
_FAILED = (Outcome.FAIL, Outcome.ERROR)


class Policy(Record, frozen=True, kw_only=True):
    """What the person who exports asked for; it goes into the manifest as it stands.

    `categories` [] means all, `finish` None both. `max_length` counts prompt and output ids
    together; what is longer is left out (`drop`) or loses the end of its output (`cut`).
    `min_scores` maps a validator to the lowest score; a sample that it did not score passes.
    `balance` is the most samples a category may give, or `smallest`: as many as the smallest one
    has. `split` maps a name to its share.
    """

    keep: list[str] = []
    drop: list[str] = []
    categories: list[str] = []
    finish: Finish | None = None
    max_length: int | None = None
    over_length: Literal["drop", "cut"] = "drop"
    min_output: int = 1
    min_scores: dict[str, float] = {}
    keep_unplanned: bool = False
    balance: int | Literal["smallest"] | None = None
    split: dict[str, float] = msgspec.field(default_factory=lambda: {"train": 1.0})
    shuffle: bool = False
    seed: int = 0
    part_bytes: int = 128 * 2**20


class LeftOut(NamedTuple):
    """Why a sample is not exported. `detail` is from a bounded list too: it holds no lengths."""

    reason: str
    detail: str = ""


class Finding(NamedTuple):
    """One failed check."""

    validator: str
    reason: str
    severity: str

    @property
    def name(self) -> str:
        return f"{self.validator}.{self.reason}"

    def is_named(self, names: Iterable[str]) -> bool:
        return any(name in (self.severity, self.reason, self.name) for name in names)


def findings_of(verdicts: Mapping[str, JudgedVerdict]) -> Iterator[Finding]:
    """The failed checks of one sample, in the order of the validators."""
    for validator, verdict in verdicts.items():
        if verdict.outcome in _FAILED:
            yield Finding(validator, verdict.reason, verdict.severity or BROKEN)


def flags_of(findings: Iterable[Finding]) -> str:
    """The findings that an exported sample carries: names with a blank between, "" for none."""
    return " ".join(finding.name for finding in findings if finding.severity in SHOWN)


class Judged(Protocol):
    """A judgement beside its verdicts."""

    @property
    def category(self) -> str: ...

    @property
    def finish(self) -> Finish: ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


class Opinion(NamedTuple):
    """What the policy makes of the verdicts on a sample: why they leave it out, by a finding or by
    a low score, and the flags that it carries."""

    finding: LeftOut | None
    low_score: LeftOut | None
    flags: str


def opinion_of(verdicts: Mapping[str, JudgedVerdict], policy: Policy) -> Opinion:
    """The same for all samples with the same verdicts."""
    findings = list(findings_of(verdicts))
    return Opinion(_bad_finding(findings, policy), _low_score(verdicts, policy), flags_of(findings))


def _bad_finding(findings: Iterable[Finding], policy: Policy) -> LeftOut | None:
    for finding in findings:
        if finding.is_named(policy.keep):
            continue
        if finding.severity == Severity.REJECT:
            return LeftOut("rejected", finding.name)
        if finding.is_named(policy.drop):
            return LeftOut("dropped", finding.name)
    return None


def _low_score(verdicts: Mapping[str, JudgedVerdict], policy: Policy) -> LeftOut | None:
    for validator, least in policy.min_scores.items():
        verdict = verdicts.get(validator)
        if verdict is not None and verdict.score is not None and verdict.score < least:
            return LeftOut("low_score", validator)
    return None


def decide(judged: Judged, opinion: Opinion, policy: Policy) -> LeftOut | None:
    """Why the sample is left out, None for one that is exported. The first that applies counts."""
    if policy.categories and judged.category not in policy.categories:
        return LeftOut("category", judged.category)
    if opinion.finding is not None:
        return opinion.finding
    if policy.finish not in (None, judged.finish):
        return LeftOut("finish", judged.finish)
    return opinion.low_score or _length_fault(judged, policy)


def _length_fault(judged: Judged, policy: Policy) -> LeftOut | None:
    kept = kept_output(judged.prompt_tokens, judged.output_tokens, policy)
    if kept < judged.output_tokens and policy.over_length == "drop":
        return LeftOut("too_long", f"over {policy.max_length} tokens")
    if kept < policy.min_output:
        why = "when cut" if kept < judged.output_tokens else "as generated"
        return LeftOut("too_short", f"under {policy.min_output} output tokens {why}")
    return None


def kept_output(prompt_tokens: int, output_tokens: int, policy: Policy) -> int:
    """How many output tokens fit into `max_length` behind the prompt."""
    if policy.max_length is None:
        return output_tokens
    return max(0, min(output_tokens, policy.max_length - prompt_tokens))


def parse_split(text: str) -> dict[str, float]:
    """`train=0.98,eval=0.02` as shares. Raises ConfigError."""
    found: dict[str, float] = {}
    for word in text.split(","):
        name, _, share = word.strip().partition("=")
        value = _number(share)
        if not name.isidentifier() or name in found or value is None or not 0 < value <= 1:
            raise _bad_split(text)
        found[name] = value
    if abs(sum(found.values()) - 1) > 1e-9:
        raise _bad_split(text)
    return found


def _bad_split(text: str) -> ConfigError:
    return ConfigError(
        "This is no split.",
        where="--split",
        found=text,
        allowed="NAME=SHARE,NAME=SHARE with different names and shares that add up to 1",
        next_step="for example --split train=0.98,eval=0.02",
    )


def parse_scores(words: Iterable[str], known: Iterable[str]) -> dict[str, float]:
    """`tool_calls=0.5` ... as lowest scores. Raises ConfigError."""
    validators = sorted(known)
    found: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        value = _number(text)
        if name not in validators or value is None or not 0 <= value <= 1:
            raise ConfigError(
                "This is no lowest score.",
                where="--min-score",
                found=word,
                allowed="VALIDATOR=NUMBER with a number from 0 to 1; the runs have "
                f"{', '.join(validators) or 'no verdicts'}",
            )
        found[name] = value
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_names(option: str, names: Iterable[str], reasons: Mapping[str, Iterable[str]]) -> None:
    """Refuse a name that no finding can have. `reasons` maps a validator to its declared ones.

    Raises:
        ConfigError: naming what there is.
    """
    known = {f"{v}.{reason}" for v, declared in reasons.items() for reason in declared}
    known |= {f"{v}.validator_error" for v in reasons}
    short = {name.partition(".")[2] for name in known}
    for name in names:
        if name not in known | short and name not in SEVERITIES:
            raise ConfigError(
                "No validator of these runs has such a reason.",
                where=option,
                found=name,
                allowed=f"{', '.join(SEVERITIES)}, a reason or VALIDATOR.REASON: "
                f"{', '.join(sorted(known))}",
            )
