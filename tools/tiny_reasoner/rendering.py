"""Examples to token ids by the shipped chat template itself, prompt and completion.

The completion is what the template adds when the reply is appended to the conversation, so no
second copy of the message format exists here.
"""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .example import Example


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder, nothing downloaded."""
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def _text(tokenizer: PreTrainedTokenizerBase, example: Example, reply: bool) -> str:
    options: dict[str, Any] = {} if example.thinking else {"thinking": False}
    return str(
        tokenizer.apply_chat_template(
            [*example.messages, example.reply] if reply else example.messages,
            tools=example.tools or None,
            add_generation_prompt=not reply,
            preserve_thinking=True,
            tokenize=False,
            **options,
        )
    )


def prompt_ids(tokenizer: PreTrainedTokenizerBase, example: Example) -> list[int]:
    """Ids of the prompt, generation prompt included."""
    return list(tokenizer.encode(_text(tokenizer, example, reply=False), add_special_tokens=False))


def pair_ids(tokenizer: PreTrainedTokenizerBase, example: Example) -> tuple[list[int], list[int]]:
    """Ids of the prompt and of the right completion, the end token last."""
    prompt, whole = (_text(tokenizer, example, reply=reply) for reply in (False, True))
    if not whole.startswith(prompt):
        raise ValueError(f"the prompt is not a prefix of the conversation: {prompt!r} / {whole!r}")
    completion = tokenizer.encode(whole[len(prompt) :], add_special_tokens=False)
    return prompt_ids(tokenizer, example), list(completion)
