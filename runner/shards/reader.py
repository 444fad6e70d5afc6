"""A reader of a shard directory: a snapshot of what is sealed and of the open shard's whole frames.

It takes no lock and never holds a writer up, so it works on a live run as on a finished one. What
it yields was intact when it was read; anything wrong is DamagedShard, never a shorter answer. A
torn tail of the open shard is "not there yet". A frame that is written but not yet synced may be
seen, and would be gone after a power cut: only on_durable of the writer says what is safe.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.shards.files import ShardFile, sealed_frames, survey_open
from runner.shards.frames import split_lines
from runner.shards.index import Index, Keying, join_rows, key_hash
from runner.shards.layout import is_open, list_shards
from runner.shards.manifest import ShardEntry, check_listed, load_manifest
from runner.shards.view import ShardView

_LOCATED_AT_ONCE = 10_000
"""Of so many lines the places are Python numbers at a time: 300 bytes each."""


class ShardReader:
    """A snapshot of a directory, which may be missing or empty. For one thread at a time.

    `keying` must be the writer's; only `index`, `at` and `get` need it.
    """

    def __init__(self, directory: Path, *, keying: Keying | None = None) -> None:
        """Raises DamagedShard, MachineError."""
        self.directory = directory
        self._keying = keying
        self._views: dict[int, ShardView] = {}
        self._index: Index | None = None
        self._order: tuple[Index, Index] | None = None
        self._frame: tuple[int, int, bytes] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Take a new snapshot; what was read of the old one is kept where it still holds."""
        before = self._views
        while (views := self._take_snapshot()) is None:
            pass
        self._views = views
        if list(views.values()) != list(before.values()):
            self._index = self._order = self._frame = None

    def _take_snapshot(self) -> dict[int, ShardView] | None:
        """Look at all shards; None when one was renamed meanwhile, that is, just sealed."""
        manifest = load_manifest(self.directory)
        shards = list_shards(self.directory)
        check_listed(manifest, shards, self.directory)
        try:
            return {
                number: self._look_at(number, path, manifest.get(number))
                for number, path in shards.items()
            }
        except FileNotFoundError:
            return None

    def _look_at(self, number: int, path: Path, entry: ShardEntry | None) -> ShardView:
        """The view of one shard: the known one if nothing changed."""
        known = self._views.get(number)
        same = known is not None and known.path == path and known.entry == entry
        if known is not None and same and not is_open(path):
            return known
        with ShardFile(path) as file:
            if is_open(path):
                frames = survey_open(file, known=known.frames if known else None).frames
            else:
                frames = sealed_frames(file)
        if known is not None and same and frames == known.frames:
            return known
        return ShardView(number, path, frames, entry=entry, known=known)

    def __len__(self) -> int:
        """How many lines there are, duplicates counted."""
        return sum(view.count() for view in self._views.values())

    def lines(self) -> Iterator[bytes]:
        """All lines of the snapshot, in the order of writing. Raises DamagedShard on the way."""
        for content in self.contents():
            yield from split_lines(content)

    def contents(self) -> Iterator[bytes]:
        """The same as whole frames: many lines at once, each ending in a newline."""
        for view in tuple(self._views.values()):
            with view.open() as file:
                for _, content in file.contents(view.frames):
                    yield content

    def index(self) -> Index:
        """One row of INDEX_DTYPE for each line, in the order of writing; don't change it.

        From the index files where they are what the manifest says, else made from the frames.
        """
        if self._index is None:
            keying = self._need_keying()
            self._index = join_rows([view.rows(keying) for view in self._views.values()])
        return self._index

    def at(self, position: int) -> bytes:
        """The line at a position of `index`. Raises IndexError, DamagedShard."""
        row = self.index()[position]
        content = self._content(int(row["shard"]), int(row["frame"]))
        offset = int(row["offset"])
        return content[offset : offset + int(row["length"])]

    def lines_at(self, positions: npt.NDArray[np.int64]) -> Iterator[bytes]:
        """The lines at these positions of `index`; rising ones decode each frame once."""
        index = self.index()[["shard", "frame", "offset", "length"]]
        for begin in range(0, len(positions), _LOCATED_AT_ONCE):
            rows = index[positions[begin : begin + _LOCATED_AT_ONCE]]
            for shard, frame, offset, length in rows.tolist():
                yield self._content(shard, frame)[offset : offset + length]

    def get(self, key: str) -> bytes | None:
        """The newest line with this key, or None. Raises DamagedShard."""
        keying = self._need_keying()
        order, keys = self._sorted()
        wanted = np.uint64(key_hash(key))
        position = int(np.searchsorted(keys, wanted, side="right"))
        while position > 0 and keys[position - 1] == wanted:
            position -= 1
            line = self.at(int(order[position]))
            if keying(line)[0] == key:
                return line
        return None

    def _need_keying(self) -> Keying:
        if self._keying is None:
            raise ValueError("index, at and get need the reader to be made with keying")
        return self._keying

    def _sorted(self) -> tuple[Index, Index]:
        """Positions in the order of key hash, equal ones in the order of writing; and the keys."""
        if self._order is None:
            keys = self.index()["key"]
            order = np.argsort(keys, kind="stable")
            self._order = (order, keys[order])
        return self._order

    def _content(self, shard: int, ordinal: int) -> bytes:
        """One frame, decoded; the last one is kept."""
        if self._frame is None or self._frame[:2] != (shard, ordinal):
            view = self._views[shard]
            with view.open() as file:
                self._frame = (shard, ordinal, file.sound_content(view.frames, ordinal))
        return self._frame[2]
