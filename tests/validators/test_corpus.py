"""Every hand-made output gets the verdict that is right for it, and natural ones are kept."""

import pytest

from tests.validators.corpus import CORPUS, Case
from tests.validators.make import failures, judged, prompt_of


def judge(case: Case):
    return judged(
        case.family,
        case.output,
        mode=case.mode,
        prompt=prompt_of(case.messages, tools=case.tools),
        finish="length" if case.cut else "stop",
        **case.changes,
    )


@pytest.mark.parametrize("case", CORPUS, ids=lambda c: f"{c.family}-{c.name}".replace(" ", "_"))
def test_the_verdict(case: Case) -> None:
    judgement = judge(case)
    assert failures(judgement) == case.fails
    assert judgement.rejected is case.rejected
    assert not [v for v in judgement.verdicts.values() if v.outcome == "error"]


def test_the_corpus_is_large_and_names_are_used_once() -> None:
    assert len(CORPUS) >= 120
    assert len({(case.family, case.name) for case in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize(
    "name",
    [
        "a cut reasoning chain",
        "a greedy loop",
        "a malformed call",
        "an empty think block",
        "a whole answer",
        "other alphabets",
        "thinks in instant mode",
    ],
)
def test_what_a_model_does_by_itself_is_never_rejected(name: str) -> None:
    found = [case for case in CORPUS if case.name == name]
    assert found
    assert not any(judge(case).rejected for case in found)
