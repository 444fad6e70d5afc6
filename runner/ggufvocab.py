"""A tokenizer out of a GGUF file's own metadata, for models that come as that one file.

Covers byte-level BPE ("gpt2" in GGUF's words) with the pre-tokenizers named below; anything else is
an error, never a guess. llama.cpp encodes nothing for us (ids go in, ids come out), so only this
side must be exact: tests compare it with the checkpoint's own tokenizer.
"""

from pathlib import Path
from typing import Any

from runner.errors import MachineError
from runner.records import Record

_SPECIAL = 3
"""GGUF's token type "control"."""
_DIGITS = {"smollm": True, "gpt-2": False, "default": False}
"""tokenizer.ggml.pre -> whether digits are split singly before the byte-level pattern."""


class GgufVocab(Record, frozen=True, kw_only=True):
    """What the file says of its vocabulary; `tokenizer` is a `tokenizers.Tokenizer`."""

    tokenizer: Any
    template: str
    eos: str


def read_vocab(path: Path) -> GgufVocab:
    """The tokenizer in a GGUF file.

    Raises:
        MachineError: the package gguf is missing, or the file's tokenizer is of another kind.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise MachineError(
            "A model that comes as a GGUF file only needs the package gguf for its tokenizer.",
            where=str(path),
            next_step="pip install gguf",
        ) from error
    fields = GGUFReader(path).fields

    def told(key: str) -> Any:
        return fields[key].contents() if key in fields else None

    kind, pre = told("tokenizer.ggml.model"), told("tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in _DIGITS:
        raise MachineError(
            "The GGUF file has a tokenizer that cannot be read from it.",
            where=str(path),
            found=f"{kind}, {pre}",
            allowed=f"gpt2 with {', '.join(_DIGITS)}",
            next_step="use the model's own folder with tokenizer.json",
        )
    tokens, types = told("tokenizer.ggml.tokens"), told("tokenizer.ggml.token_type")
    eos_id = int(told("tokenizer.ggml.eos_token_id"))
    return GgufVocab(
        tokenizer=_build(tokens, types, told("tokenizer.ggml.merges"), digits=_DIGITS[pre]),
        template=str(told("tokenizer.chat_template") or ""),
        eos=tokens[eos_id],
    )


def _build(tokens: list[str], types: list[int], merges: list[str], *, digits: bool) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    steps = [pre_tokenizers.Digits(individual_digits=True), byte_level] if digits else [byte_level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types, strict=True) if int(kind) == _SPECIAL]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer
