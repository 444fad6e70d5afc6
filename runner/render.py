"""Messages to ids by the model's own chat template, ids to text, and the probed `TokenProfile`.

The only module that knows transformers, which it imports late: it costs seconds. Whatever
`apply_chat_template` returns in a given version, what leaves here is a plain `list[int]`.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from runner.config import ModelMode
from runner.errors import ConfigError, MachineError
from runner.modelfiles import read_json
from runner.records import ModeProfile, Record, TokenProfile, ToolMarkers

_PROBE = [{"role": "user", "content": "probe"}]
_THINK_TOKENS = (("<think>", "</think>"),)
_TOOL_TOKENS = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
)


class Tokenizer:
    """A pinned tokenizer with its chat template."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

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
        import jinja2

        try:
            ids = self._inner.apply_chat_template(
                messages,
                tools=tools or None,
                add_generation_prompt=generation_prompt,
                tokenize=True,
                **template_kwargs,
            )
        except (jinja2.TemplateError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RenderFault("template", f"{type(error).__name__}: {error}") from error
        return _plain_ids(ids)

    def decode(self, ids: list[int]) -> str:
        """Text of ids, all at once, special tokens visible."""
        text = self._inner.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` needs to read it back without the model."""
        folder.mkdir(parents=True, exist_ok=True)
        self._inner.save_pretrained(str(folder))

    @property
    def vocabulary(self) -> dict[str, int]:
        """Token string to id, added tokens included."""
        return dict(self._inner.get_vocab())

    @property
    def special_tokens(self) -> dict[int, str]:
        """Id to text of every added token: think and tool markers too, special or not."""
        return {i: str(t.content) for i, t in self._inner.added_tokens_decoder.items()}

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
    if not ids or not all(type(i) is int for i in ids):
        raise RenderFault("not_ids", f"the template gave {type(ids).__name__}, not a list of ids")
    return list(ids)


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


class TokenizerFacts(Record, frozen=True, kw_only=True):
    """What the model folder says beside the tokenizer itself."""

    config: dict[str, Any] = {}
    generation_config: dict[str, Any] = {}


def facts_of(folder: Path | None) -> TokenizerFacts:
    """config.json and generation_config.json of a model folder."""
    return TokenizerFacts(
        config=read_json(folder, "config.json"),
        generation_config=read_json(folder, "generation_config.json"),
    )


def probe(
    tokenizer: Tokenizer,
    facts: TokenizerFacts,
    modes: Mapping[str, ModelMode],
    hints: Mapping[str, Any],
) -> TokenProfile:
    """What this tokenizer and template really do, found by asking them.

    `hints` (model.hints in the config) may name `think_open`, `think_close` (token texts) and
    `stop_tokens`; a hint that the tokenizer does not have is an error.

    Raises:
        ConfigError: a hint contradicts the tokenizer, or two modes render the same prompt.
    """
    vocabulary = tokenizer.vocabulary
    think_open, think_close = _think_ids(vocabulary, hints)
    special = tokenizer.special_tokens
    stop_ids = _stop_ids(tokenizer, facts, vocabulary, hints)
    tools = _tool_markers(vocabulary)
    allowed = {*stop_ids, think_open, think_close, *(_marker_ids(tools))}
    profile_modes = {
        name: _probe_mode(tokenizer, mode, think_open, think_close) for name, mode in modes.items()
    }
    _check_modes_differ(profile_modes)
    assigned = _ranges(sorted(vocabulary.values()))
    return TokenProfile(
        stop_ids=stop_ids,
        think_open=think_open,
        think_close=think_close,
        tools=tools,
        forbidden_output_ids=sorted(set(special) - allowed),
        assigned=assigned,
        vocab_padded=max(_vocab_size(facts.config), assigned[-1][1]),
        special_tokens=special,
        modes=profile_modes,
        template_sha256=hashlib.sha256(tokenizer.template.encode()).hexdigest(),
        tokenizer_sha256=_vocabulary_hash(vocabulary, special),
    )


def _vocab_size(config: Mapping[str, Any]) -> int:
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else config
    return int(inner.get("vocab_size", 0))


def _token_id(vocabulary: Mapping[str, int], text: str, hint: str) -> int:
    if text not in vocabulary:
        raise ConfigError(
            "The config names a token that the tokenizer does not have.",
            where=f"model.hints.{hint}",
            found=text,
            allowed="a token of the tokenizer's vocabulary",
        )
    return vocabulary[text]


def _think_ids(
    vocabulary: Mapping[str, int], hints: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    if "think_open" in hints or "think_close" in hints:
        return (
            _token_id(vocabulary, str(hints.get("think_open")), "think_open"),
            _token_id(vocabulary, str(hints.get("think_close")), "think_close"),
        )
    for open_text, close_text in _THINK_TOKENS:
        if open_text in vocabulary and close_text in vocabulary:
            return vocabulary[open_text], vocabulary[close_text]
    return None, None


def _stop_ids(
    tokenizer: Tokenizer,
    facts: TokenizerFacts,
    vocabulary: Mapping[str, int],
    hints: Mapping[str, Any],
) -> list[int]:
    """Every id that ends a turn: generation config, model config, tokenizer and hints together."""
    found: set[int] = set()
    for config in (facts.generation_config, facts.config):
        eos = config.get("eos_token_id")
        found.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    if tokenizer.eos_id is not None:
        found.add(tokenizer.eos_id)
    found.update(_token_id(vocabulary, str(t), "stop_tokens") for t in hints.get("stop_tokens", ()))
    return sorted(found)


def _tool_markers(vocabulary: Mapping[str, int]) -> ToolMarkers | None:
    if not all(token in vocabulary for token in _TOOL_TOKENS):
        return None
    names = msgspec.structs.fields(ToolMarkers)
    return ToolMarkers(**{f.name: vocabulary[t] for f, t in zip(names, _TOOL_TOKENS, strict=True)})


def _marker_ids(tools: ToolMarkers | None) -> list[int]:
    return [] if tools is None else list(msgspec.structs.astuple(tools))


def _probe_mode(
    tokenizer: Tokenizer, mode: ModelMode, think_open: int | None, think_close: int | None
) -> ModeProfile:
    ids = tokenizer.render(_PROBE, [], mode.template_kwargs)
    without = tokenizer.render(_PROBE, [], mode.template_kwargs, generation_prompt=False)
    tail = ids[len(without) :] if ids[: len(without)] == without else []
    return ModeProfile(
        template_kwargs=dict(mode.template_kwargs),
        generation_prompt=tail,
        think=_think_state(tail, think_open, think_close),
    )


def _think_state(
    tail: list[int], think_open: int | None, think_close: int | None
) -> Literal["open", "closed", "none"]:
    last = next((i for i in reversed(tail) if i in (think_open, think_close)), None)
    if last is None:
        return "none"
    return "open" if last == think_open else "closed"


def _check_modes_differ(modes: Mapping[str, ModeProfile]) -> None:
    """A misspelt template kwarg is ignored by Jinja without a word; equal prompts give it away."""
    seen: dict[tuple[int, ...], str] = {}
    for name, mode in modes.items():
        tail = tuple(mode.generation_prompt)
        if tail and tail in seen:
            raise ConfigError(
                f"Modes {seen[tail]!r} and {name!r} render the same prompt, so the switch has no "
                "effect.",
                where=f"model.modes.{name}.template_kwargs",
                found=str(mode.template_kwargs),
                next_step="look up the switch's name in the model's chat template",
            )
        seen[tail] = name


def _ranges(ids: list[int]) -> list[tuple[int, int]]:
    """Sorted ids as half-open ranges."""
    ranges: list[tuple[int, int]] = []
    for i in ids:
        if ranges and ranges[-1][1] >= i:
            ranges[-1] = (ranges[-1][0], i + 1)
        else:
            ranges.append((i, i + 1))
    return ranges


def _vocabulary_hash(vocabulary: Mapping[str, int], special: Mapping[int, str]) -> str:
    content = msgspec.json.encode([sorted(vocabulary.items()), sorted(special.items())])
    return hashlib.sha256(content).hexdigest()
