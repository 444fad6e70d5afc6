"""One shard as a snapshot knows it: its frames, and what has been read of them so far."""

from pathlib import Path

from runner.shards.files import ShardFile
from runner.shards.frames import Frame, split_lines
from runner.shards.index import Index, Keying, join_rows, load_index, rows_from_lines
from runner.shards.layout import blame, index_path, sealed_path
from runner.shards.manifest import ShardEntry


class ShardView:
    """A shard of which only `frames` are looked at, whatever is appended behind them.

    What was read of `known`, an earlier view of the same shard, is taken over.
    """

    def __init__(
        self,
        number: int,
        path: Path,
        frames: list[Frame],
        *,
        entry: ShardEntry | None,
        known: "ShardView | None" = None,
    ) -> None:
        self.number = number
        self.path = path
        self.frames = frames
        self.entry = entry
        self._counts: list[int] = []
        self._rows: list[Index] = []
        if known is not None and _continues(frames, known.frames):
            self._counts, self._rows = known._counts, known._rows

    def open(self) -> ShardFile:
        """Open the file, by its sealed name if it was sealed since: its frames are the same."""
        try:
            return ShardFile(self.path)
        except FileNotFoundError:
            path = sealed_path(self.path.parent, self.number)
        with blame(path, "open a shard"):
            return ShardFile(path)

    def count(self) -> int:
        """The number of lines. Decodes what neither the manifest nor an earlier call tells."""
        if self.entry is not None:
            return self.entry.records
        if len(self._counts) < len(self.frames):
            with self.open() as file:
                for _, content in file.contents(self.frames, first=len(self._counts)):
                    self._counts.append(content.count(b"\n"))
        return sum(self._counts)

    def rows(self, keying: Keying) -> Index:
        """The index rows of all frames. Decodes what neither file nor earlier call tells."""
        listed = None if self._rows else self._listed_rows()
        if listed is not None:
            return listed
        if len(self._rows) < len(self.frames):
            self._read_rows(keying)
        return join_rows(self._rows)

    def _listed_rows(self) -> Index | None:
        if self.entry is None:
            return None
        path = index_path(self.path.parent, self.number)
        return load_index(path, sha256=self.entry.index_sha256)

    def _read_rows(self, keying: Keying) -> None:
        with self.open() as file:
            first = len(self._rows)
            for ordinal, content in file.contents(self.frames, first=first):
                rows = rows_from_lines(
                    split_lines(content),
                    keying,
                    path=self.path,
                    shard=self.number,
                    frame=self.frames[ordinal],
                    ordinal=ordinal,
                )
                self._rows.append(rows)


def _continues(frames: list[Frame], known: list[Frame]) -> bool:
    """Whether `frames` begin with all of `known`; a frame's place and checksum stand for it."""
    return not known or (len(frames) >= len(known) and frames[len(known) - 1] == known[-1])
