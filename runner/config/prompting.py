"""Settings about prompts that must fit together: source, parts, counts, budgets, filters."""

import re

from runner.config.prompt_schema import Part, SourceKind
from runner.config.ranges import RANGES
from runner.config.schema import Config
from runner.errors import ConfigError

FILTER_FORM = re.compile(r"\s*(\S.*?)\s*(==|!=|<=|>=|<|>|\sin\s)\s*(.*\S)\s*", re.DOTALL)
"""A filter: a column, a comparison and a value, or `in` and values with commas between them."""


def check_prompting(config: Config) -> None:
    """Raise ConfigError for the first setting about prompts that cannot be meant."""
    parts = config.category.parts
    if not parts:
        raise ConfigError("The category has no parts.", where="category.parts", found="{}")
    for name, part in parts.items():
        _check_name(name)
        _check_block(config, name, part)
        _check_filters(name, part)
    if config.source.kind is SourceKind.file and config.source.path and len(parts) > 1:
        raise ConfigError(
            "source.path is one set of prompts, and this category has several parts.",
            where="category",
            found=", ".join(parts),
            next_step="choose one, for example category=B4, or give each part its file.path",
        )
    _check_amounts(config)


def _check_name(name: str) -> None:
    if not RANGES["task_name"][1](name):
        raise ConfigError(
            "A part's name becomes part of every sample id.",
            where=f"category.parts.{name}",
            found=name,
            allowed=RANGES["task_name"][0],
        )


def _check_block(config: Config, name: str, part: Part) -> None:
    """The block that `source` reads must be there."""
    source = config.source
    if source.kind is SourceKind.file:
        if not (source.path or part.file.path):
            raise ConfigError(
                "source=file needs a file.",
                where="source.path",
                found="null",
                next_step="source.path=prompts.jsonl",
            )
    elif getattr(part, source.kind.value) is None:
        blocks = {"bundled": part.bundled, "hub": part.hub, "custom": part.custom}
        have = [name for name, block in blocks.items() if block is not None]
        raise ConfigError(
            f"This part has no {source.kind.value} prompts.",
            where=f"category.parts.{name}.{source.kind.value}",
            found="null",
            allowed=", ".join(f"source={kind}" for kind in [*have, "file"]),
            next_step="source=file source.path=prompts.jsonl reads a file of yours",
        )


def _check_filters(name: str, part: Part) -> None:
    for condition in part.filters:
        found = FILTER_FORM.fullmatch(condition)
        if found is None or (found[2] in ("<", ">", "<=", ">=") and not _number(found[3])):
            raise ConfigError(
                "A filter is a column, a comparison and a value.",
                where=f"category.parts.{name}.filters",
                found=condition,
                allowed='"level == easy", "lang != en", "score >= 0.8", "level in easy, medium"',
            )


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_amounts(config: Config) -> None:
    category = config.category
    if category.total is None:
        return
    counts = {"category.count": category.count} | {
        f"category.parts.{name}.count": part.count for name, part in category.parts.items()
    }
    for where, count in counts.items():
        if count is not None:
            raise ConfigError(
                "category.total shares rows out by weight, so no part has a count of its own.",
                where=where,
                found=str(count),
                allowed="null beside category.total",
            )
