"""`vocabulary`: how often each id is supervised in the exported samples, and a draft vocabulary.

In the folder of each split: `token_freq.pt` (a dict id -> count, as speculators saves and reads it)
and the same as `token_freq.json`; `vocab_mapping.pt` (`d2t` int64, `t2d` bool, as SpecForge's
`model.vocab_mapping_path` reads it) and the same as `d2t.npy` and `t2d.npy`; `coverage.json` and
`coverage.html`. A part, `counts-00000.json`, maps each category to its ids and their counts.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np

from runner.export.coverage import (
    Counts,
    DraftVocabulary,
    coverage_table,
    draft_vocabulary,
    must_have,
    ranked,
    sum_of,
)
from runner.export.coverage_page import coverage_page
from runner.export.formats import Finished, Options, PartFile
from runner.export.item import Item
from runner.export.torchfile import write_torch_file
from runner.records import Record, TokenProfile
from runner.rundir import replace_file


class CategoryCounts(Record, frozen=True, kw_only=True):
    """Ids that occur, in order, and how often each does."""

    ids: list[int]
    counts: list[int]


class Vocabulary:
    """See the module. Raises ConfigError for a draft size that cannot be."""

    name = "vocabulary"
    bytes_per_token = 0.5
    holds_ids = True
    ordered = False

    def __init__(self, options: Options, profile: TokenProfile) -> None:
        self._vocab = profile.vocab_padded
        self._size = min(options.draft_size, self._vocab)
        self._forced = must_have(profile)
        draft_vocabulary(self._zeros(), self._size, self._forced)

    def _zeros(self) -> Counts:
        return np.zeros(self._vocab, dtype=np.int64)

    def file_name(self, number: int) -> str:
        return f"counts-{number:05d}.json"

    def open(self, path: Path) -> "CountWriter":
        return CountWriter(path, self._vocab)

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        files: list[Path] = []
        summary: dict[str, Any] = {}
        for split, written in parts.items():
            counts = self._sum(written)
            table = coverage_table(counts)
            draft = draft_vocabulary(sum_of(counts), self._size, self._forced)
            files += self._write(folder / split, counts, draft, table)
            summary[split] = {
                "supervised_tokens": int(sum_of(counts).sum()),
                "distinct_ids": int((sum_of(counts) > 0).sum()),
                "draft_size": self._size,
                "draft_coverage": _share(sum_of(counts), draft),
                "padded_ids": draft.padded,
                "forced_ids": draft.forced,
                "coverage": {n: {str(s): v for s, v in row.items()} for n, row in table.items()},
            }
        return Finished(files, summary, [_in_words(*entry) for entry in summary.items()])

    def _sum(self, written: Sequence[PartFile]) -> dict[str, Counts]:
        """Category -> counts over all parts."""
        found: dict[str, Counts] = {}
        for part in written:
            read = msgspec.json.decode(part.path.read_bytes(), type=dict[str, CategoryCounts])
            for category, one in read.items():
                found.setdefault(category, self._zeros())[one.ids] += one.counts
        return dict(sorted(found.items()))

    def _write(
        self,
        folder: Path,
        counts: dict[str, Counts],
        draft: DraftVocabulary,
        table: dict[str, dict[int, float]],
    ) -> list[Path]:
        whole = sum_of(counts)
        frequencies = {int(i): int(whole[i]) for i in ranked(whole) if whole[i]}
        write_torch_file(folder / "token_freq.pt", frequencies)
        write_torch_file(folder / "vocab_mapping.pt", {"d2t": draft.d2t, "t2d": draft.t2d})
        pages = {
            "token_freq.json": msgspec.json.encode(frequencies),
            "d2t.npy": _npy(draft.d2t),
            "t2d.npy": _npy(draft.t2d),
            "coverage.json": msgspec.json.format(msgspec.json.encode(table), indent=2),
            "coverage.html": coverage_page(counts, table, self._size).encode(),
        }
        for name, content in pages.items():
            replace_file(folder / name, content)
        return [folder / name for name in ("token_freq.pt", "vocab_mapping.pt", *pages)]


def _in_words(split: str, of: Mapping[str, Any]) -> str:
    """What to say of one split."""
    text = (
        f"{split}: {of['draft_size']:,} ids cover {of['draft_coverage']:.2%} of "
        f"{of['supervised_tokens']:,} supervised tokens ({of['distinct_ids']:,} different ids)"
    )
    if of["padded_ids"]:
        text += f"; {of['padded_ids']:,} of them never occur: a smaller --draft-size would do"
    return text


def _share(counts: Counts, draft: DraftVocabulary) -> float:
    total = int(counts.sum())
    return int(counts[draft.ids].sum()) / total if total else 0.0


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


class CountWriter:
    """Counts of one part. A `PartWriter`."""

    def __init__(self, path: Path, vocab: int) -> None:
        self._path = path
        self._vocab = vocab
        self._counts: dict[str, Counts] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            found = {name: _sparse(counts) for name, counts in sorted(self._counts.items())}
            self._path.write_bytes(msgspec.json.encode(found))

    def add(self, item: Item) -> str:
        ids = item.output_array()
        if len(ids) and (ids.min() < 0 or ids.max() >= self._vocab):
            return "id_out_of_vocabulary"
        category = item.metadata.category
        counts = self._counts.setdefault(category, np.zeros(self._vocab, dtype=np.int64))
        np.add.at(counts, ids, 1)
        return ""

    def notes(self) -> dict[str, int]:
        return {}


def _sparse(counts: Counts) -> CategoryCounts:
    ids = np.flatnonzero(counts)
    return CategoryCounts(ids=ids.tolist(), counts=counts[ids].tolist())
