"""The `TokenProfile`: what a pinned tokenizer and chat template really do, found by asking them.

Conversations of one, two and three turns, with and without a system message, tools and a tool
result, are rendered in every mode; ids are compared, never texts. What the config hints
(`model.hints`) must agree with what was found:

    think_open, think_close       token texts, for markers that are not among the known ones
    think                         {mode: open | closed | none}: how the prompt leaves the reasoning
    stop_tokens                   token texts that end a turn beside those of the model's own files
    tool_grammar                  kimi, deepseek, dsml, hermes, qwen_xml, glm, minimax, llama3,
                                  harmony, none
    allowed_tokens                token texts that an answer may hold although they are special
    forbidden_tokens              token texts that it must not hold although they are not
    injects_date                  true or false
    date                          YYYY-MM-DD: what a template sees that writes the date
"""

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from runner.config import ModelMode
from runner.errors import ConfigError
from runner.grammars import END_OF_TURN, THINK_MARKERS, find_channels, find_tools, grammar_of
from runner.modelfiles import read_json
from runner.records import ChannelMarkers, ModeProfile, Record, TokenProfile, ToolMarkers
from runner.render import FROZEN_DATE, Tokenizer
from runner.templates import USER, injects_date, probe_mode, role_openers

HINTS = (
    "think_open",
    "think_close",
    "think",
    "stop_tokens",
    "tool_grammar",
    "allowed_tokens",
    "forbidden_tokens",
    "injects_date",
    "date",
)


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


def frozen_date(hints: Mapping[str, Any]) -> datetime.date:
    """The date that templates see. Raises ConfigError for a hint that is no date."""
    if "date" not in hints:
        return FROZEN_DATE
    try:
        return datetime.date.fromisoformat(str(hints["date"]))
    except ValueError:
        raise ConfigError(
            "This is no date.",
            where="model.hints.date",
            found=str(hints["date"]),
            allowed="YYYY-MM-DD",
        ) from None


def probe(
    tokenizer: Tokenizer,
    facts: TokenizerFacts,
    modes: Mapping[str, ModelMode],
    hints: Mapping[str, Any],
) -> TokenProfile:
    """The profile of this tokenizer in these modes.

    Raises:
        ConfigError: a hint is unknown or contradicts what was found, or two modes render the same
            prompt.
        RenderFault: the template cannot render a single user turn.
    """
    _check_known(hints)
    tokenizer = tokenizer.at(frozen_date(hints))
    vocabulary = tokenizer.vocabulary
    think_open, think_close = _think_ids(vocabulary, hints)
    tools = find_tools(vocabulary, tokenizer.template)
    channels = find_channels(vocabulary, tokenizer.encode)
    _agree("tool_grammar", hints, grammar_of(tools, channels))
    found = {
        name: probe_mode(tokenizer, mode, think_open, think_close) for name, mode in modes.items()
    }
    _check_modes_differ(tokenizer, modes)
    _check_think(found, hints)
    injects = injects_date(tokenizer, modes)
    _agree("injects_date", hints, injects)
    stops = _stop_ids(tokenizer, facts, vocabulary, hints)
    markers = _marker_ids(think_open, think_close, tools, channels)
    special = tokenizer.special_tokens | _names(vocabulary, {*stops, *markers})
    inside = _marker_ids(think_open, think_close, tools, None)
    openers = role_openers(tokenizer, modes, set(special) - inside)
    assigned = _ranges(sorted(vocabulary.values()))
    return TokenProfile(
        stop_ids=stops,
        think_open=think_open,
        think_close=think_close,
        tools=tools,
        channels=channels,
        forbidden_output_ids=_forbidden(tokenizer, openers, {*stops, *markers}, hints),
        assigned=assigned,
        vocab_padded=max(_vocab_size(facts.config), assigned[-1][1]),
        special_tokens=special,
        bos_id=tokenizer.bos_id,
        role_openers=openers,
        date=tokenizer.date.isoformat() if injects else "",
        modes=found,
        template_sha256=hashlib.sha256(tokenizer.template.encode()).hexdigest(),
        tokenizer_sha256=_vocabulary_hash(vocabulary, tokenizer.special_tokens),
    )


def _check_known(hints: Mapping[str, Any]) -> None:
    for name in hints:
        if name not in HINTS:
            raise ConfigError(
                "There is no such hint.",
                where=f"model.hints.{name}",
                found=name,
                allowed=", ".join(HINTS),
            )


def _agree(hint: str, hints: Mapping[str, Any], found: object) -> None:
    if hint in hints and hints[hint] != found:
        raise ConfigError(
            "The config says one thing of the model, its tokenizer and template another.",
            where=f"model.hints.{hint}",
            found=f"{hints[hint]!r} in the config, {found!r} when probed",
            next_step="drop the hint, or check that these are the right tokenizer files",
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


def _named(vocabulary: Mapping[str, int], hints: Mapping[str, Any], hint: str) -> set[int]:
    return {_token_id(vocabulary, str(text), hint) for text in hints.get(hint, ())}


def _names(vocabulary: Mapping[str, int], ids: set[int]) -> dict[int, str]:
    return {i: text for text, i in vocabulary.items() if i in ids}


def _think_ids(
    vocabulary: Mapping[str, int], hints: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    if "think_open" in hints or "think_close" in hints:
        return (
            _token_id(vocabulary, str(hints.get("think_open")), "think_open"),
            _token_id(vocabulary, str(hints.get("think_close")), "think_close"),
        )
    for open_text, close_text in THINK_MARKERS:
        if open_text in vocabulary and close_text in vocabulary:
            return vocabulary[open_text], vocabulary[close_text]
    return None, None


def _stop_ids(
    tokenizer: Tokenizer,
    facts: TokenizerFacts,
    vocabulary: Mapping[str, int],
    hints: Mapping[str, Any],
) -> list[int]:
    """Every id that ends a turn: generation config, model config, tokenizer, hints, and the two
    that engines stop at by themselves or that older configs forgot."""
    found: set[int] = set()
    for config in (facts.generation_config, facts.config):
        eos = config.get("eos_token_id")
        found.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    if tokenizer.eos_id is not None:
        found.add(tokenizer.eos_id)
    found.update(vocabulary[text] for text in END_OF_TURN if text in vocabulary)
    return sorted(found | _named(vocabulary, hints, "stop_tokens"))


def _marker_ids(
    think_open: int | None,
    think_close: int | None,
    tools: ToolMarkers | None,
    channels: ChannelMarkers | None,
) -> set[int]:
    """Special ids that belong into an answer."""
    ids = {i for i in (think_open, think_close) if i is not None}
    for markers in (tools, channels):
        if markers is not None:
            ids.update(v for v in msgspec.structs.astuple(markers) if isinstance(v, int) and v >= 0)
    return ids


def _forbidden(
    tokenizer: Tokenizer,
    openers: Mapping[str, list[int]],
    allowed: set[int],
    hints: Mapping[str, Any],
) -> list[int]:
    """What the makers marked as special, and what opens roles, unless it belongs into answers."""
    vocabulary = tokenizer.vocabulary
    allowed = allowed | _named(vocabulary, hints, "allowed_tokens")
    forbidden = tokenizer.control_ids.union(*openers.values())
    constrain = vocabulary.get("<|constrain|>")  # stands in the header of a tool call (gpt-oss)
    return sorted(
        (forbidden - allowed - {constrain}) | _named(vocabulary, hints, "forbidden_tokens")
    )


def _check_think(modes: Mapping[str, ModeProfile], hints: Mapping[str, Any]) -> None:
    for name, state in dict(hints.get("think") or {}).items():
        if name in modes:
            _agree(f"think.{name}", {f"think.{name}": state}, modes[name].think)


def _check_modes_differ(tokenizer: Tokenizer, modes: Mapping[str, ModelMode]) -> None:
    """A misspelt template kwarg is ignored by Jinja without a word; equal prompts give it away."""
    seen: dict[tuple[int, ...], str] = {}
    for name, mode in modes.items():
        ids = tuple(tokenizer.render([USER], [], mode.template_kwargs))
        if ids in seen:
            raise ConfigError(
                f"Modes {seen[ids]!r} and {name!r} render the same prompt, so the switch has no "
                "effect.",
                where=f"model.modes.{name}.template_kwargs",
                found=str(mode.template_kwargs),
                next_step="look up the switch's name in the model's chat template",
            )
        seen[ids] = name


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
