"""A path in the config to sources: one file by its ending, a glob of many, a folder of `datasets`.

    .jsonl .ndjson (also .zst .gz)   .json (an array, or lines)   .parquet   .arrow   .csv   FOLDER/

Each file of a glob is a source of its own, named by its file name without the endings, and ROW
counts within it; so a sample id says which file its row is in.
"""

import glob
import re
from pathlib import Path

from runner.errors import ConfigError
from runner.prompts.jsonarray import JsonArraySource, begins_with_array
from runner.prompts.lines import CODECS, CompressedJsonlSource, JsonlSource
from runner.prompts.onefile import unreadable
from runner.prompts.source import PromptSource
from runner.prompts.tables import OPENERS, ArrowSource, saved_arrow_files

_LINES = (".jsonl", ".ndjson")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_]+")


def open_files(pattern: str, where: str) -> list[PromptSource]:
    """The sources of one path or glob, in the order of their names.

    Raises:
        ConfigError: nothing matches, or a file cannot be read.
    """
    whole = Path(pattern).expanduser().absolute()
    if whole.exists():
        return [_open(whole, where, "")]
    if not glob.has_magic(pattern):
        raise unreadable(whole, where, "there is no such file")
    found = sorted(glob.glob(str(whole)))  # noqa: PTH207 - the pattern is absolute
    paths = [Path(name) for name in found]
    if not paths:
        raise unreadable(whole, where, "no file matches this glob")
    if len(paths) == 1:
        return [_open(paths[0], where, "")]
    names = _names(paths, where)
    return [_open(path, where, name) for path, name in zip(paths, names, strict=True)]


def _names(paths: list[Path], where: str) -> list[str]:
    names = [_NOT_IN_IDS.sub("_", path.name.split(".")[0]) or "_" for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            "Two files of this glob would have the same name in sample ids.",
            where=where,
            found=", ".join(p.name for p, n in zip(paths, names, strict=True) if n in twice),
            next_step="rename one of them",
        )
    return names


def _open(path: Path, where: str, name: str) -> PromptSource:
    if path.is_dir():
        return ArrowSource(saved_arrow_files(path, where), where, name)
    ending = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    if ending in CODECS and inner in (*_LINES, ".json"):
        return CompressedJsonlSource(path, where, name)
    if ending in OPENERS:
        source: PromptSource = OPENERS[ending](path, where, name)
        return source
    try:
        is_array = ending == ".json" and begins_with_array(path)
    except OSError as error:
        raise unreadable(path, where, error.strerror or str(error)) from error
    if is_array:
        return JsonArraySource(path, where, name)
    if ending in (*_LINES, ".json"):
        return JsonlSource(path, where, name)
    raise ConfigError(
        "This kind of file is not known.",
        where=where,
        found=path.name,
        allowed=", ".join([*_LINES, *(f"{_LINES[0]}{c}" for c in CODECS), ".json", *OPENERS]),
    )
