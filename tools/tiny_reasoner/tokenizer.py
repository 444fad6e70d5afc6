"""The tokenizer: byte-level BPE with single digits, special tokens in Kimi-K2's spelling.

Promises: any text round-trips byte for byte; special tokens have the ids above the merges, so
that `assigned_size` is the last special id + 1; the model pads its embedding to a multiple of 64
above that. The folder loads with `AutoTokenizer` offline and without torch.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .data import examples
from .example import Example
from .paths import PROMPTS

SPECIAL_TOKENS = [
    "[PAD]",
    "[BOS]",
    "[EOS]",
    "<|im_system|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_middle|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
]
ASSIGNED_SIZE = 1_270
PADDED_SIZE = 1_280
CONTEXT_LENGTH = 2_048
TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def _example_text(example: Example) -> Iterator[str]:
    for message in [*example.messages, example.reply]:
        yield str(message.get("content") or "")
        yield message.get("reasoning_content", "")
        for call in message.get("tool_calls", []):
            yield f"functions.{call['function']['name']}:0"
            yield json.dumps(call["function"]["arguments"])
    if example.tools:
        yield json.dumps(example.tools, separators=(",", ":"))


def _prompt_file_text() -> Iterator[str]:
    for path in sorted(PROMPTS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for message in row["messages"]:
                if isinstance(message.get("content"), str):
                    yield message["content"]
            if row.get("tools"):
                yield json.dumps(row["tools"], separators=(",", ":"))


def training_text(count: int = 6_000) -> Iterator[str]:
    """What the merges are learned from: generated examples and the bundled prompts, ten times."""
    for example in islice(examples(0, "train"), count):
        yield from _example_text(example)
    yield from list(_prompt_file_text()) * 10
    yield from ["system", "user", "assistant", "tool_declare", "## Return of functions."] * 1000


def train() -> Tokenizer:
    """Learn the merges and append the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    # llama.cpp's pre-tokenizer "smollm" is these two steps.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ASSIGNED_SIZE - len(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    if tokenizer.get_vocab_size() != ASSIGNED_SIZE:
        raise SystemExit(f"vocabulary: {tokenizer.get_vocab_size()}, wanted {ASSIGNED_SIZE}")
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "[BOS]",
        "eos_token": "<|im_end|>",
        "pad_token": "[PAD]",
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT_LENGTH,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copyfile(TEMPLATE, folder / "chat_template.jinja")


if __name__ == "__main__":
    save(train(), Path(sys.argv[1]))
