"""What a format is. Each one is a module with a class; the table of them is in `runner.export`.

pretokenized   ids and loss mask as JSON lines              parquet, hf   the same in columns
messages       OpenAI messages, decoded                     sharegpt      EAGLE's own text form
vocabulary     how often each id is supervised, and the draft vocabulary made from that
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from runner.export.item import Item
from runner.records import Record


class Options(Record, frozen=True, kw_only=True):
    """Settings of single formats; they go into the manifest beside the policy.

    `key` names the list of messages in `messages`; `call_reader` is the function that reads tool
    calls out of ids, as MODULE:NAME; `draft_size` is the size of the draft vocabulary.
    """

    key: str = "messages"
    call_reader: str = "validators.call_grammars:read_calls"
    draft_size: int = 32_000


class PartWriter(Protocol):
    """One open file, a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def add(self, item: Item) -> str:
        """Write one sample; "" or why this format cannot hold it (then nothing is written)."""

    def notes(self) -> dict[str, int]:
        """What was counted beside samples; summed over all parts into the manifest."""


class PartFile(NamedTuple):
    """A finished part: where it lies and the hash of its bytes."""

    path: Path
    sha256: str


class Finished(NamedTuple):
    """Files made from all parts, and what is to be said of the whole: as figures for the manifest,
    and in words for the person who exports."""

    files: list[Path] = []
    summary: dict[str, Any] = {}
    words: list[str] = []


class Format(Protocol):
    """How samples are written. `bytes_per_token` is about what a token takes in a file;
    `holds_ids` tells that runs with different tokenizers cannot be joined; `ordered` that the order
    of samples means something."""

    name: str
    bytes_per_token: float
    holds_ids: bool
    ordered: bool

    def file_name(self, number: int) -> str:
        """The name of a part in the folder of its split."""

    def open(self, path: Path) -> PartWriter:
        """Begin a file."""

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        """Called when all parts are there (split -> its files). Doing it again is the same."""
