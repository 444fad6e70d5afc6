"""Messages to ids by the model's own chat template, and ids to text.

The only module that knows transformers, which it imports late: it costs seconds. Whatever
`apply_chat_template` returns in a given version, what leaves here is a plain `list[int]`.
"""

import datetime
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.errors import MachineError
from runner.ggufvocab import read_vocab

FROZEN_DATE = datetime.date(2026, 1, 1)
"""The date that templates see which write today's into every prompt (Llama 3, gpt-oss, SmolLM3).
Fixed, so that a run that is continued on another day renders the same prompts; model.hints.date
sets another."""


class Tokenizer:
    """A pinned tokenizer with its chat template, whose clock always shows `date`."""

    def __init__(self, inner: Any, date: datetime.date = FROZEN_DATE) -> None:
        self._inner = inner
        self.date = date

    def at(self, date: datetime.date) -> "Tokenizer":
        """The same tokenizer with another frozen date."""
        return Tokenizer(self._inner, date)

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        template_kwargs: Mapping[str, Any],
        *,
        generation_prompt: bool = True,
    ) -> list[int]:
        """The ids of a conversation, ending in the template's generation prompt.

        Raises:
            RenderFault: the template refused the conversation, or gave something else than ids.
        """
        kwargs = {**template_kwargs, "add_generation_prompt": generation_prompt}
        return _plain_ids(self._apply(messages, tools, kwargs, tokenize=True))

    def render_text(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        template_kwargs: Mapping[str, Any],
    ) -> str:
        """What `render` would turn into ids, as text. Raises RenderFault."""
        kwargs = {**template_kwargs, "add_generation_prompt": True}
        text = self._apply(messages, tools, kwargs, tokenize=False)
        if not isinstance(text, str):
            raise RenderFault("template", f"the template gave {type(text).__name__}, not text")
        return text

    def _apply(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        kwargs: Mapping[str, Any],
        *,
        tokenize: bool,
    ) -> Any:
        import jinja2

        try:
            return self._inner.apply_chat_template(
                messages,
                tools=tools or None,
                tokenize=tokenize,
                **{"strftime_now": self._strftime, **kwargs},
            )
        except (jinja2.TemplateError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RenderFault("template", f"{type(error).__name__}: {error}") from error

    def _strftime(self, form: str) -> str:
        return self.date.strftime(form)

    def encode(self, text: str) -> list[int]:
        """Ids of a plain text, nothing added; text of special tokens gives their ids."""
        return _plain_ids(self._inner.encode(text, add_special_tokens=False)) if text else []

    def decode(self, ids: list[int]) -> str:
        """Text of ids, all at once, special tokens visible."""
        text = self._inner.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` needs to read it back without the model."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._inner.save_pretrained(str(folder))
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise MachineError(  # all that the tokenizers library raises when a write fails
                "Could not keep the tokenizer in the run.",
                where=str(folder),
                found=str(error),
                next_step="make room (disk, quota or file size limit); the same command continues",
            ) from error

    @property
    def vocabulary(self) -> dict[str, int]:
        """Token string to id, added tokens included."""
        return dict(self._inner.get_vocab())

    @property
    def special_tokens(self) -> dict[int, str]:
        """Id to text of every added token: think and tool markers too, special or not."""
        return {i: str(t.content) for i, t in self._inner.added_tokens_decoder.items()}

    @property
    def control_ids(self) -> set[int]:
        """Added tokens that the tokenizer's makers marked as special: never ordinary text."""
        return {i for i, t in self._inner.added_tokens_decoder.items() if t.special}

    @property
    def is_fast(self) -> bool:
        """Whether it is a Rust tokenizer, microseconds a prompt."""
        return bool(self._inner.is_fast)

    @property
    def bos_id(self) -> int | None:
        return None if self._inner.bos_token_id is None else int(self._inner.bos_token_id)

    @property
    def eos_id(self) -> int | None:
        return None if self._inner.eos_token_id is None else int(self._inner.eos_token_id)

    @property
    def template(self) -> str:
        template = self._inner.chat_template
        if isinstance(template, dict):
            return "\n".join(f"{name}:{text}" for name, text in sorted(template.items()))
        return str(template or "")


class RenderFault(Exception):
    """One conversation could not be rendered; the run records it and goes on."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


def _plain_ids(ids: Any) -> list[int]:
    """transformers 4 gives a list, 5 a BatchEncoding; some tokenizers a nested or numpy one."""
    if isinstance(ids, Mapping) or hasattr(ids, "input_ids"):
        ids = ids["input_ids"]
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if ids and isinstance(ids[0], list):
        ids = ids[0]
    if not ids or set(map(type, ids)) != {int}:
        raise RenderFault("not_ids", f"the template gave {type(ids).__name__}, not a list of ids")
    return list(ids)


def _lone_gguf(path: Path | str) -> Path | None:
    """The GGUF file of a folder that holds a model as that file only, without a tokenizer."""
    if not isinstance(path, Path) or (path / "tokenizer_config.json").is_file():
        return None
    return next(iter(sorted(path.glob("*.gguf"))), None)


def _from_gguf(path: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    vocab = read_vocab(path)
    inner = PreTrainedTokenizerFast(tokenizer_object=vocab.tokenizer, eos_token=vocab.eos)
    inner.chat_template = vocab.template
    return inner


def load_tokenizer(
    path: Path | str, *, revision: str | None = None, trust_remote_code: bool = False
) -> Tokenizer:
    """Load the tokenizer of a model folder, a run's tokenizer/ folder, or a hub id.

    Raises:
        MachineError: it cannot be loaded, or it has no chat template.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("transformers").setLevel(logging.ERROR)  # "PyTorch was not found" is meant
    from transformers import AutoTokenizer

    kwargs: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if revision is not None and not isinstance(path, Path):
        kwargs["revision"] = revision
    try:
        if (gguf := _lone_gguf(path)) is not None:
            inner = _from_gguf(gguf)
        else:
            inner = AutoTokenizer.from_pretrained(str(path), **kwargs)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise MachineError(
            "The tokenizer cannot be loaded.",
            where=f"model.path or model.id: {path}",
            found=str(error).strip().splitlines()[0] if str(error).strip() else repr(error),
            next_step="check the folder, or the network and model.revision; models with their own "
            "code need model.trust_remote_code=true",
        ) from error
    tokenizer = Tokenizer(inner)
    if not tokenizer.template:
        raise MachineError(
            "The tokenizer has no chat template, so messages cannot be rendered.",
            where=str(path),
            next_step="use an instruct model, or put its chat_template.jinja into the folder",
        )
    return tokenizer
