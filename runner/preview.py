"""`preview=N`: the first N prompts of the sending order, as they are and as the model sees them.

No server is started and nothing is written. What is shown is made by the very steps that planning
takes, so a wrong column, a shape that does not fit or a template that refuses shows here first.
"""

import tempfile
from collections.abc import Iterable
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.text import Text

from runner.config import Duplicates, SourceKind
from runner.gather import Entry, Gathered, PartSelection, Selection, select
from runner.model import RunModel
from runner.planwriter import Result, beside, sample_id, skip_of
from runner.preflight import limits_of
from runner.prompts.shape import text_of
from runner.rendering import Rendered
from runner.resolve import Resolved
from runner.view.escape import safe, safe_line

TEXT_CHARS = 3_000
"""Characters shown of one text; the rest is counted."""
IDS_AT_EACH_END = 40


def show_preview(resolved: Resolved, console: Console) -> int:
    """Print the first prompts, and counts. Gives the exit code 0.

    Raises:
        RunnerError: what planning would raise.
    """
    config = resolved.config
    model = RunModel(config, resolved.model)
    selected = {name: select(part, config.seed) for name, part in resolved.parts.items()}
    limits = limits_of(config)
    drop = config.prompts.duplicates is Duplicates.drop
    shown = skipped = 0
    with Gathered(Path(tempfile.gettempdir()), resolved.parts) as gathered:
        for selection in first_places(selected.values(), config.preview):
            for _ in gathered.read(selection, resolved.exclusion):
                pass
        entries = islice(gathered.in_order(), config.preview)
        for entry, result in beside(entries, model.ahead):
            skip = skip_of(entry, result, resolved.parts[entry.part], limits, drop=drop)
            _show(console, model, entry, result, skip)
            shown += not skip
            skipped += bool(skip)
    model.close()
    _close(console, resolved, selected, shown, skipped)
    return 0


def first_places(parts: Iterable[PartSelection], count: int) -> list[Selection]:
    """The selections cut down to the first `count` rows of the sending order."""
    selections = [selection for part in parts for selection in part.sources]
    places = np.sort(np.concatenate([s.places for s in selections]))
    last = places[min(count, len(places)) - 1] if len(places) else 0.0
    return [
        s._replace(rows=s.rows[s.places <= last], places=s.places[s.places <= last])
        for s in selections
    ]


def _show(console: Console, model: RunModel, entry: Entry, result: Result, skip: str) -> None:
    console.rule(Text(f"{sample_id(entry, 0)}", style="bold"), align="left")
    if skip:
        console.print(Text(f"skipped  {safe_line(skip)}", style="yellow"), soft_wrap=True)
    if entry.conversation is not None:
        for message in entry.conversation.messages:
            _show_message(console, message)
        if entry.conversation.tools:
            names = ", ".join(str(t["function"]["name"]) for t in entry.conversation.tools)
            console.print(Text(f"[tools] {safe_line(names)}", style="yellow"), soft_wrap=True)
        if entry.conversation.answer:
            answer = clipped(entry.conversation.answer)
            console.print(Text(f"[answer] {safe(answer)}", style="green"), soft_wrap=True)
    if isinstance(result, Rendered):
        _show_rendered(console, model, result)
    console.print()


def _show_message(console: Console, message: dict[str, Any]) -> None:
    console.print(Text(f"[{message['role']}]", style="bold blue"), soft_wrap=True)
    if reasoning := message.get("reasoning_content"):
        console.print(Text(f"(reasoning) {safe(clipped(reasoning))}", style="cyan"), soft_wrap=True)
    console.print(Text(safe(clipped(text_of(message)))), soft_wrap=True)
    for call in message.get("tool_calls") or ():
        shown = msgspec.json.encode(call["function"]).decode()
        console.print(Text(f"(call) {safe_line(clipped(shown))}", style="yellow"), soft_wrap=True)


def _show_rendered(console: Console, model: RunModel, result: Rendered) -> None:
    made_plain = f", {result.escaped} control texts made plain" if result.escaped else ""
    head = f"[rendered] {len(result.ids):,} tokens{made_plain}; special tokens stand out"
    console.print(Text(head, style="bold"))
    special = model.profile.special_tokens
    text, left = Text(), TEXT_CHARS
    for is_special, run in groupby(result.ids, key=lambda token: token in special):
        ids = list(run)
        pieces = [special[i] for i in ids] if is_special else [model.tokenizer.decode(ids)]
        for piece in pieces:
            text.append(safe(piece[:left]), style="reverse" if is_special else "")
            left = max(0, left - len(piece))
    console.print(text, soft_wrap=True)
    if not left:
        console.print(Text("… (the rest is not shown)", style="dim"))
    console.print(Text(f"[ids] {ids_line(result.ids)}", style="dim"), soft_wrap=True)


def clipped(text: str) -> str:
    """The text, or its beginning and how much is not shown."""
    left = len(text) - TEXT_CHARS
    return text if left <= 0 else f"{text[:TEXT_CHARS]} … ({left:,} characters more)"


def ids_line(ids: list[int]) -> str:
    """All ids, or both ends."""
    if len(ids) <= 2 * IDS_AT_EACH_END:
        return " ".join(map(str, ids))
    first, last = ids[:IDS_AT_EACH_END], ids[-IDS_AT_EACH_END:]
    left = len(ids) - 2 * IDS_AT_EACH_END
    return f"{' '.join(map(str, first))} … {left:,} more … {' '.join(map(str, last))}"


def _close(
    console: Console, resolved: Resolved, selected: dict[str, PartSelection], shown: int, skip: int
) -> None:
    console.rule(style="dim")
    # What a category's file expects is said of its own data set, not of other rows in its place.
    from_hub = resolved.config.source.kind is SourceKind.hub
    for name, part in selected.items():
        taken = sum(len(s.rows) for s in part.sources)
        expected = resolved.parts[name].expected.prompt_tokens if from_hub else None
        about = f"; about {expected:,} prompt tokens each are expected" if expected else ""
        line = f"{name}: {taken:,} of {part.available:,} rows are selected{about}"
        console.print(line, soft_wrap=True)
    console.print(f"of those shown, {shown} would be sent and {skip} skipped")
    console.print("Nothing was started or written; leave preview out for the run itself.")
