"""The parts of an export, one after the other, each whole or not there at all."""

from collections.abc import Callable, Iterator
from pathlib import Path

from runner.export.dealing import Dealer
from runner.export.folder import ExportFolder, State, sync_file
from runner.export.formats import Format
from runner.export.item import Item, Reader
from runner.export.layout import Part
from runner.export.leftout import LeftOutLine, write_left_out
from runner.export.manifest import CategoryTotals, PartState

Say = Callable[[str], None]


def write_parts(
    folder: ExportFolder,
    parts: list[Part],
    reader: Reader,
    form: Format,
    *,
    digest: str,
    dealer: Dealer,
    say: Say,
) -> list[PartState]:
    """Write what is not there yet; the states of all parts. Raises DamagedShard, OSError."""
    state = folder.read_state() or State(digest=digest)
    done = {name: part for name, part in state.parts.items() if folder.is_whole(part)}
    if done:
        say(f"Going on: {len(done):,} of {len(parts):,} files are written.")
    owed = [part for part in parts if name_of(part, form) not in done]
    mixed = [part for part in owed if not part.in_order]
    if len(mixed) > 1:
        say(f"Dealing out samples to {len(mixed):,} files ...")
    dealer.deal(mixed)
    for part in owed:
        name = name_of(part, form)
        done[name] = _write_part(folder, part, reader.items(part), form)
        folder.write_state(State(digest=digest, parts=done))
        say(f"{name}: {len(part.rows) - done[name].refused:,} samples")
    return [done[name_of(part, form)] for part in parts]


def name_of(part: Part, form: Format) -> str:
    """Where a part lies in the folder."""
    return f"{part.split}/{form.file_name(part.number)}"


def refusals(folder: ExportFolder, name: str) -> Path:
    """Where the samples are named that the format could not hold in this part."""
    return folder.work / f"{name.replace('/', '.')}.left_out.jsonl"


def _write_part(folder: ExportFolder, part: Part, items: Iterator[Item], form: Format) -> PartState:
    name, unfinished = name_of(part, form), folder.work / "unfinished"
    totals: dict[str, list[int]] = {}
    refused: list[LeftOutLine] = []
    with form.open(unfinished) as writer:
        for item in items:
            if reason := writer.add(item):
                refused.append(_refusal(item, reason))
            else:
                _count(totals, item)
        notes = writer.notes()
    write_left_out(refusals(folder, name), refused)
    size, sha256 = _publish(unfinished, folder.path / name) if totals else (0, "")
    return PartState(
        split=part.split,
        file=name,
        bytes=size,
        sha256=sha256,
        categories={category: _totals(*counts) for category, counts in sorted(totals.items())},
        notes=notes,
        refused=len(refused),
    )


def _publish(unfinished: Path, target: Path) -> tuple[int, str]:
    size, sha256 = sync_file(unfinished)
    target.parent.mkdir(exist_ok=True)
    unfinished.replace(target)
    return size, sha256


def _count(totals: dict[str, list[int]], item: Item) -> None:
    metadata = item.metadata
    counts = totals.setdefault(metadata.category, [0, 0, 0])
    counts[0] += 1
    counts[1] += metadata.prompt_tokens
    counts[2] += metadata.completion_tokens


def _totals(samples: int, prompt_tokens: int, supervised_tokens: int) -> CategoryTotals:
    return CategoryTotals(
        samples=samples, prompt_tokens=prompt_tokens, supervised_tokens=supervised_tokens
    )


def _refusal(item: Item, reason: str) -> LeftOutLine:
    return LeftOutLine(
        sample_id=item.line.sample_id,
        run=item.metadata.run,
        category=item.metadata.category,
        reason=reason,
        detail="this format cannot hold it",
    )
