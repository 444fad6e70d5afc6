"""Samples and verdicts for the tests of validators, over the family tokenizers."""

import re
from typing import Any

from hydra import compose, initialize_config_dir

from runner.cli import CONF
from runner.plugins import load_validators, override_validators
from runner.records import (
    NOT_TOLD,
    Expected,
    JudgedVerdict,
    Judgement,
    Prompt,
    Sample,
)
from runner.validate import Judge
from tests.families.build import profile_named, tokenizer_named

DEFAULT = override_validators({}, ["validators=default"], CONF)
_SPECIAL = re.compile(r"⟦(\d+)⟧")


def ids_of(family: str, text: str) -> list[int]:
    """Ids of a text in which special tokens are written as they are; ⟦N⟧ is the id N itself."""
    tokenizer, found, at = tokenizer_named(family), [], 0
    for match in _SPECIAL.finditer(text):
        found += [*tokenizer.encode(text[at : match.start()]), int(match[1])]
        at = match.end()
    return found + tokenizer.encode(text[at:])


def prompt_of(
    messages: list[dict[str, Any]] | str = "Hi", *, tools: Any = (), answer: str = ""
) -> Prompt:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return Prompt(
        prompt_hash="0" * 32,
        category="B4",
        row=0,
        messages=messages,
        tools=list(tools),
        answer=answer,
    )


def rendered(family: str, prompt: Prompt, mode: str) -> list[int]:
    kwargs = profile_named(family).modes[mode].template_kwargs
    return tokenizer_named(family).render(prompt.messages, prompt.tools, kwargs)


def sample_of(
    output: list[int],
    *,
    input_ids: list[int] = (1, 2, 3),
    finish: str = "stop",
    mode: str = "thinking",
    asked: int | None = None,
    **changes: Any,
) -> Sample:
    size = len(output)
    values = {
        "run_id": "r",
        "sample_id": "B4-0-0",
        "category": "B4",
        "source": "",
        "row": 0,
        "turn": 0,
        "k": 0,
        "try_": 0,
        "prompt_hash": "0" * 32,
        "mode": mode,
        "sampling_digest": "d",
        "input_ids": list(input_ids),
        "output_ids": output,
        "finish": finish,
        "matched_token": output[-1] if finish == "stop" and output else NOT_TOLD,
        "matched_text": "",
        "finish_length": size if finish == "length" else NOT_TOLD,
        "requested_max_new_tokens": asked or (size if finish == "length" else max(4096, size)),
        "prompt_echo": "same",
        "prompt_tokens": len(input_ids),
        "completion_tokens": size,
        "cached_tokens": 0,
        "retractions": 0,
        "weight_version": "",
        "endpoint": "e",
        "launch": 1,
        "attempt": 1,
        "sent_at": 0.0,
        "finished_at": 1.0,
        "latency_s": 1.0,
    }
    return Sample(**(values | changes))


def judge_of(
    family: str,
    mode: str | None = None,
    *overrides: str,
    expected: Expected | None = None,
) -> Judge:
    profile = profile_named(family)
    chosen = profile.modes[mode or next(iter(profile.modes))]
    entries = override_validators(DEFAULT, overrides, CONF)
    return Judge(
        load_validators(entries),
        profile,
        chosen,
        tokenizer=tokenizer_named(family),
        expected={"B4": expected} if expected else {},
    )


def judged(
    family: str,
    output: str,
    *,
    mode: str | None = None,
    prompt: Prompt | None = None,
    finish: str = "stop",
    overrides: tuple[str, ...] = (),
    expected: Expected | None = None,
    weights: frozenset[str] = frozenset(),
    **changes: Any,
) -> Judgement:
    """Judge an output given as text (see `ids_of`) that answers a prompt."""
    mode = mode or next(iter(profile_named(family).modes))
    prompt = prompt or prompt_of()
    sample = sample_of(
        ids_of(family, output),
        input_ids=changes.pop("input_ids", None) or rendered(family, prompt, mode),
        finish=finish,
        mode=mode,
        **changes,
    )
    judge = judge_of(family, mode, *overrides, expected=expected)
    judge.weight_versions = weights
    return judge.judge(sample, prompt)


def failures(judgement: Judgement) -> dict[str, str]:
    """Validator -> reason of what failed, information left out."""
    return {
        name: verdict.reason
        for name, verdict in judgement.verdicts.items()
        if verdict.outcome == "fail" and verdict.severity != "info"
    }


def verdict_on(name: str, judgement: Judgement) -> JudgedVerdict:
    return judgement.verdicts[name]


def composed(*overrides: str) -> Any:
    from runner.config import parse
    from runner.plugins import register_schema

    register_schema()
    with initialize_config_dir(CONF, version_base="1.3"):
        return parse(compose("config", overrides=["paths.outputs=/o", *overrides]))
