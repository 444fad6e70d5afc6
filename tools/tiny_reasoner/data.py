"""The mix of task kinds and its split into training and held-out examples.

Promises: `examples(seed, split)` is deterministic; a prompt (messages and tools) belongs to one
split only, by its hash, whatever the seed, so nothing held out is ever trained on.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Literal

from . import conversation, reasoning, tool_tasks
from .example import Example, Message

Split = Literal["train", "heldout"]

# Weights of the mix; tool prompts are long, so their share of tokens is larger than it looks.
KINDS: dict[Callable[[Random], Example], float] = {
    reasoning.bare: 24,
    reasoning.word: 8,
    reasoning.two_step: 13,
    reasoning.compare: 5,
    reasoning.units: 5,
    reasoning.rate: 3,
    reasoning.sequence: 4,
    reasoning.order: 4,
    reasoning.perimeter: 3,
    tool_tasks.one_call: 14,
    tool_tasks.two_calls: 5,
    tool_tasks.after_result: 5,
    tool_tasks.declined: 4,
    tool_tasks.no_tool_needed: 2,
    conversation.repository: 4,
    conversation.code: 3,
    conversation.chat: 3,
    conversation.too_hard: 3,
}
SYSTEMS = [
    "You are a helpful assistant.",
    "Answer briefly.",
    "You are a careful assistant. Think step by step.",
    "Solve the task.",
]
HELDOUT_BUCKETS = 24
INSTANT_SHARE = 0.17


def prompt_hash(example: Example) -> str:
    """SHA-256 of the prompt's canonical JSON."""
    canonical = json.dumps([example.messages, example.tools], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def split_of(example: Example) -> Split:
    """The split that a prompt belongs to."""
    return "heldout" if int(prompt_hash(example), 16) % HELDOUT_BUCKETS == 0 else "train"


def _with_context(example: Example, rng: Random) -> Example:
    """Sometimes a system message or an earlier exchange before the prompt."""
    messages = list(example.messages)
    if rng.random() < 0.08:
        earlier = rng.choice([conversation.chat, reasoning.bare])(rng)
        answer: Message = {"role": "assistant", "content": earlier.reply["content"]}
        messages = [*earlier.messages, answer, *messages]
    if messages[0]["role"] == "user" and rng.random() < 0.15:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    return replace(example, messages=messages)


def examples(seed: int, split: Split) -> Iterator[Example]:
    """Endless examples of the mix, in thinking and instant mode."""
    rng = Random(f"{seed}-{split}")
    kinds, weights = list(KINDS), list(KINDS.values())
    while True:
        example = _with_context(rng.choices(kinds, weights)[0](rng), rng)
        instant = rng.random() < INSTANT_SHARE
        if split_of(example) == split:
            yield example.instant() if instant else example


def examples_of(kind: Callable[[Random], Example], seed: int, split: Split) -> Iterator[Example]:
    """Distinct examples of one kind, in thinking mode, without added context."""
    rng = Random(f"{seed}-{split}-{kind.__name__}")
    seen: set[str] = set()
    # A kind with few prompts runs dry in a split; the bound makes that an end, not a hang.
    for _ in range(20_000):
        example = kind(rng)
        key = prompt_hash(example)
        if key not in seen and split_of(example) == split:
            seen.add(key)
            yield example
