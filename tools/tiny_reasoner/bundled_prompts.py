"""Write B1, B4 and B5 of the bundled prompts: 24 held-out generated rows and 16 by hand each.

B1 is function calling, B4 reasoning in words and sums, B5 science, units and logic. The generated
rows come from the held-out split, so the model has not been trained on any of them. Those by hand
(`handwritten/`) are what the category stands for, mostly beyond the model; none is from a data set.
"""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from . import reasoning, tool_tasks
from .data import examples_of
from .example import Example
from .paths import PROMPTS

SEED = 2026
HANDWRITTEN = Path(__file__).with_name("handwritten")
GENERATED: dict[str, dict[Callable[[Random], Example], int]] = {
    "B1": {
        tool_tasks.one_call: 11,
        tool_tasks.two_calls: 4,
        tool_tasks.after_result: 4,
        tool_tasks.declined: 3,
        tool_tasks.no_tool_needed: 2,
    },
    "B4": {reasoning.two_step: 11, reasoning.word: 6, reasoning.bare: 5, reasoning.compare: 2},
    "B5": {
        reasoning.units: 6,
        reasoning.rate: 5,
        reasoning.sequence: 5,
        reasoning.order: 5,
        reasoning.perimeter: 3,
    },
}
Row = dict[str, Any]


def _row(example: Example, category: str) -> Row:
    row: Row = {"messages": example.messages}
    if example.tools:
        row["tools"] = example.tools
    if category != "B1" and example.answer is not None:
        row["answer"] = example.answer
    return row


def _by_hand(category: str) -> list[Row]:
    lines = (HANDWRITTEN / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def rows(category: str) -> list[Row]:
    """The rows of one category, generated and handwritten ones mixed in a fixed order."""
    generated = [
        _row(example, category)
        for kind, count in GENERATED[category].items()
        for example in islice(examples_of(kind, SEED, "heldout"), count)
    ]
    mixed = [*generated, *_by_hand(category)]
    Random(f"{SEED}-{category}").shuffle(mixed)
    return mixed


def main() -> None:
    """Write the three files."""
    for category in GENERATED:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows(category)]
        (PROMPTS / f"{category}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
