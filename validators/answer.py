"""The final answer against the reference answer, for prompts that have one.

Covers: numbers and texts by comparison after blanks, commas and currency signs are dropped; other
mathematics (fractions, roots, sets, intervals) by math-verify, on what stands in the last \\boxed{}
or behind the last "answer is". A hit scores 1, a miss 0, over a run the accuracy.
Does not cover: answers in prose; reasoning; expressions so large that comparing them could take
minutes (towers of powers, more than 200 characters). Without the package math-verify (extra
`answers`) what only it could compare is skipped, not counted as wrong.

Reasons
    wrong_answer  info  the final answer is not the reference
    no_answer     info  a whole output in which nothing looks like a final answer

Example: a run at temperature 1 with a healthy server solved 61 % of its maths prompts; the same
prompts through a mis-set template 12 %, with every other check passing.
"""

import logging
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import ClassVar

from runner.records import Kind, Outcome, Sample, SampleContext, Severity, Verdict

MAX_CHARS = 200
"""A longer expression is not given to math-verify."""
_BOXED = re.compile(r"\\boxed\s*\{")
_SAYS = re.compile(r"(?:final\s+)?answer\s*(?:is\s*:?|:)\s*([^\n]+)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+−]?\d[\d,_]*(?:\.\d+)?")
_HUGE = re.compile(r"\^\s*\{?\s*\(?\d{4,}|\^[^+\-=]*\^|\d{4,}\s*!|!!")


class Answer:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "wrong_answer": Severity.INFO,
        "no_answer": Severity.INFO,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; skip without a reference, without text, or for a cut output."""
        prompt, decode = context.prompt, context.decode
        if prompt is None or not prompt.answer or decode is None or sample.finish != "stop":
            return Verdict(outcome=Outcome.SKIP)
        parts = [
            decode(sample.output_ids[start:end])
            for kind, start, end in context.segments
            if kind is Kind.ANSWER
        ]
        return _compare("".join(parts).strip(), prompt.answer.strip())


def _compare(text: str, wanted: str) -> Verdict:
    got = final_answer(text)
    if not got:
        return Verdict(outcome=Outcome.FAIL, reason="no_answer", score=0.0, detail=text[:80])
    same: bool | None = _same(got, wanted) or _plain(text) == _plain(wanted)
    if not same and _number(wanted) is None:
        same = _same_mathematics(got, wanted)
    if same is None:
        return Verdict(outcome=Outcome.SKIP, detail="needs the package math-verify")
    if same:
        return Verdict(outcome=Outcome.PASS, score=1.0)
    detail = f"{got[:60]!r}, the reference is {wanted[:60]!r}"
    return Verdict(outcome=Outcome.FAIL, reason="wrong_answer", score=0.0, detail=detail)


def final_answer(text: str) -> str:
    """What the text gives as its answer: the last box, else what follows the last "answer is",
    else the last number, else a text of one line. "" for none."""
    boxes = [_braced(text, match.end()) for match in _BOXED.finditer(text)]
    if boxes:
        return boxes[-1].strip()
    if says := _SAYS.findall(text):
        return str(says[-1]).strip().rstrip(".")
    if numbers := _NUMBER.findall(text):
        return str(numbers[-1])
    return text if text and "\n" not in text else ""


def _braced(text: str, start: int) -> str:
    """The text up to the brace that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def _same(got: str, wanted: str) -> bool:
    if _plain(got) == _plain(wanted):
        return True
    number = _number(wanted)
    if number is None:
        return False
    found = _NUMBER.findall(got)
    return bool(found) and _number(str(found[-1])) == number


def _plain(text: str) -> str:
    return re.sub(r"[\s$*,_]+|\\[,;! ]|\.$", "", text).casefold()


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(re.sub(r"[\s$,_]+", "", text).replace("−", "-"))
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _same_mathematics(got: str, wanted: str) -> bool | None:
    """By math-verify; None where it is not installed or the expression is too large to compare."""
    if max(len(got), len(wanted)) > MAX_CHARS or _HUGE.search(got) or _HUGE.search(wanted):
        return None
    try:
        import math_verify
    except ImportError:
        return None
    # Its own time-outs use signals, which only a main thread may set; it warns that they are off.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    gold, found = (
        math_verify.parse(rf"\boxed{{{text}}}", parsing_timeout=None, raise_on_error=False)
        for text in (wanted, got)
    )
    if not gold or not found:
        return False
    return bool(math_verify.verify(gold, found, timeout_seconds=None, raise_on_error=False))
