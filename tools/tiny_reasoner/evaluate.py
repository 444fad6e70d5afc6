"""Held-out rates, honestly: greedy and at temperature 1, through llama.cpp, by kind.

Structure: the think block is closed once (thinking) or never (instant), no second opening, every
tool section is well formed with JSON arguments, the end token comes last, no unassigned id.
Right: tool calls equal by name and arguments, or the content equal to the expected one.
"""

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerBase

from .data import KINDS, examples_of
from .example import Example
from .gguf_export import FILE_NAME
from .llamacpp import Endpoint, serving
from .paths import PROMPTS
from .rendering import load_tokenizer, prompt_ids
from .tokenizer import ASSIGNED_SIZE

SEED = 77
CALL = re.compile(
    r"<\|tool_call_begin\|>functions\.([\w-]+):(\d+)<\|tool_call_argument_begin\|>(.*?)"
    r"<\|tool_call_end\|>",
    re.DOTALL,
)
SECTION = re.compile(
    r"<\|tool_calls_section_begin\|>((?:(?!<\|tool_calls_section).)+)<\|tool_calls_section_end\|>",
    re.DOTALL,
)
Call = tuple[str, object]


@dataclass(frozen=True)
class Reading:
    """What a completion says, or that its structure is wrong (`None` from `read`)."""

    content: str
    calls: list[Call]


def _calls(section: str) -> list[Call] | None:
    found: list[Call] = []
    for match in CALL.finditer(section):
        try:
            arguments = json.loads(match[3])
        except json.JSONDecodeError:
            return None
        found.append((match[1], arguments))
    return found if found and not CALL.sub("", section) else None


def read(tokenizer: PreTrainedTokenizerBase, ids: list[int], thinking: bool) -> Reading | None:
    """Parse a completion; None if its structure is wrong."""
    if not ids or ids[-1] != tokenizer.eos_token_id or max(ids) >= ASSIGNED_SIZE:
        return None
    text = str(tokenizer.decode(ids[:-1]))
    if text.count("</think>") != int(thinking) or "<think>" in text or "<|im_" in text:
        return None
    content = text.split("</think>", 1)[-1]
    match = SECTION.search(content)
    if match is None:
        return None if "<|tool_call" in text else Reading(content, [])
    calls = _calls(match[1])
    rest = SECTION.sub("", content, count=1)
    return None if calls is None or "<|tool_call" in rest else Reading(rest, calls)


def is_right(example: Example, reading: Reading) -> bool:
    """Whether the reading is the expected reply."""
    expected = [
        (call["function"]["name"], call["function"]["arguments"])
        for call in example.reply.get("tool_calls", [])
    ]
    return reading.calls == expected and reading.content == example.reply["content"]


@dataclass
class Tally:
    """Counts of one row of the table."""

    asked: int = 0
    structured: int = 0
    right: int = 0

    def add(self, other: "Tally") -> None:
        """Sum up."""
        self.asked += other.asked
        self.structured += other.structured
        self.right += other.right

    def row(self, name: str) -> str:
        """A Markdown table row."""
        return f"{name} | {self.structured}/{self.asked} | {self.right}/{self.asked}"


def measure(
    endpoint: Endpoint,
    tokenizer: PreTrainedTokenizerBase,
    asked: list[Example],
    temperature: float,
) -> Tally:
    """Ask every example once."""
    tally = Tally()
    for index, example in enumerate(asked):
        ids = endpoint.complete(
            prompt_ids(tokenizer, example), temperature=temperature, seed=SEED + index
        )
        reading = read(tokenizer, ids, example.thinking)
        tally.asked += 1
        tally.structured += reading is not None
        tally.right += reading is not None and is_right(example, reading)
    return tally


def _asked(kind: Callable[[Random], Example], count: int, thinking: bool) -> list[Example]:
    found = list(islice(examples_of(kind, SEED, "heldout"), count))
    return found if thinking else [example.instant() for example in found]


def table(folder: Path, count: int) -> str:
    """The Markdown table of all kinds and modes."""
    tokenizer = load_tokenizer(folder)
    lines = [
        "kind | greedy: structure | greedy: right | T=1: structure | T=1: right",
        "--- | --- | --- | --- | ---",
    ]
    with serving(folder / FILE_NAME) as endpoint:
        for thinking in (True, False):
            totals = [Tally(), Tally()]
            for kind in KINDS:
                asked = _asked(kind, count if thinking else max(1, count // 4), thinking)
                tallies = [measure(endpoint, tokenizer, asked, t) for t in (0.0, 1.0)]
                for total, tally in zip(totals, tallies, strict=True):
                    total.add(tally)
                name = kind.__name__ if thinking else f"{kind.__name__} (instant)"
                if thinking:
                    lines.append(f"{tallies[0].row(name)} | {tallies[1].row('')[3:]}")
            name = "**all, thinking**" if thinking else "**all, instant**"
            lines.append(f"{totals[0].row(name)} | {totals[1].row('')[3:]}")
    return "\n".join(f"| {line} |" for line in lines)


def bundled_table(folder: Path) -> str:
    """The Markdown table of the bundled prompts, greedy, in thinking mode."""
    tokenizer = load_tokenizer(folder)
    lines = ["category | structure | answer right", "--- | --- | ---"]
    with serving(folder / FILE_NAME) as endpoint:
        for path in sorted(PROMPTS.glob("B*.jsonl")):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            readings = [_ask_row(endpoint, tokenizer, row) for row in rows]
            structured = sum(reading is not None for reading in readings)
            answers = [
                reading is not None and reading.content == f"The answer is {row['answer']}."
                for row, reading in zip(rows, readings, strict=True)
                if "answer" in row
            ]
            right = f"{sum(answers)}/{len(answers)}" if answers else "no answers given"
            lines.append(f"{path.stem} | {structured}/{len(rows)} | {right}")
    return "\n".join(f"| {line} |" for line in lines)


def _ask_row(
    endpoint: Endpoint, tokenizer: PreTrainedTokenizerBase, row: dict[str, Any]
) -> Reading | None:
    prompt = tokenizer.apply_chat_template(
        row["messages"],
        tools=row.get("tools"),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
    )["input_ids"]
    return read(tokenizer, endpoint.complete(prompt, temperature=0.0), thinking=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=32, help="held-out prompts of each kind")
    options = parser.parse_args()
    print(table(options.folder, options.count), flush=True)
    print(bundled_table(options.folder))


if __name__ == "__main__":
    main()
