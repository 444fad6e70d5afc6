"""One sample on its way out: what every format is given.

Ids stay as the JSON text in which they lie in the shard until a format asks for numbers, since
most of them are only copied.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from runner.errors import DamagedShard
from runner.export.dealing import Dealer
from runner.export.layout import Part
from runner.export.rows import Survey, numbers_of
from runner.export.sources import Source
from runner.records import Finish, Prompt, Record


class Line(msgspec.Struct, gc=False, rename={"try_": "try"}):
    """What export reads of a sample's line; the keys of `runner.records.Sample`."""

    sample_id: str
    category: str
    source: str
    row: int
    turn: int
    k: int
    try_: int
    prompt_hash: str
    mode: str
    sampling_digest: str
    input_ids: msgspec.Raw
    output_ids: msgspec.Raw
    finish: Finish


class Metadata(Record, frozen=True, kw_only=True):
    """What goes with every exported sample, the same keys and types in each.

    `finish_reason` is "length" where the exported ids end before the model's stop, so also where
    `cut_tokens` output ids were cut off here. `flags` are the findings it is exported with, names
    with a blank between.
    """

    run: str
    model: str
    category: str
    source: str
    row: int
    turn: int
    k: int
    mode: str
    prompt_hash: str
    sampling_digest: str
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    cut_tokens: int
    flags: str


class Item:
    """A sample to write. `id` is the sample id, behind the run's name where there are several."""

    __slots__ = ("id", "input_text", "line", "metadata", "output_text", "prompt_ordinal", "source")

    def __init__(
        self,
        line: Line,
        *,
        source: Source,
        id: str,
        flags: str,
        output_tokens: int,
        prompt_ordinal: int,
    ) -> None:
        self.id = id
        self.line = line
        self.source = source
        self.prompt_ordinal = prompt_ordinal
        self.input_text = bytes(line.input_ids)[1:-1]
        output = bytes(line.output_ids)[1:-1]
        generated = count_ids(output)
        self.output_text = first_ids(output, output_tokens) if output_tokens < generated else output
        cut = max(0, generated - output_tokens)
        self.metadata = Metadata(
            run=source.given.name,
            model=source.given.model,
            category=line.category,
            source=line.source,
            row=line.row,
            turn=line.turn,
            k=line.k,
            mode=line.mode,
            prompt_hash=line.prompt_hash,
            sampling_digest=line.sampling_digest,
            finish_reason="length" if cut else line.finish,
            prompt_tokens=count_ids(self.input_text),
            completion_tokens=generated - cut,
            cut_tokens=cut,
            flags=flags,
        )

    def input_ids(self) -> list[int]:
        """The prompt's ids."""
        return _list(self.input_text)

    def output_ids(self) -> list[int]:
        """The exported output ids."""
        return _list(self.output_text)

    def input_array(self) -> npt.NDArray[np.int64]:
        """The prompt's ids, shape (prompt_tokens,)."""
        return _array(self.input_text)

    def output_array(self) -> npt.NDArray[np.int64]:
        """The exported output ids, shape (completion_tokens,)."""
        return _array(self.output_text)

    def prompt(self) -> Prompt | None:
        """Its messages and tools; None where the run does not tell which they are."""
        prompt = self.source.prompt(self.prompt_ordinal)
        return (
            prompt if prompt is not None and prompt.prompt_hash == self.line.prompt_hash else None
        )


_decode_ids = msgspec.json.Decoder(list[int]).decode


def _list(text: bytes) -> list[int]:
    return _decode_ids(b"[" + text + b"]")


def _array(text: bytes) -> npt.NDArray[np.int64]:
    return np.array(_list(text), dtype=np.int64)


def count_ids(text: bytes) -> int:
    """How many ids the inside of a JSON list holds."""
    return text.count(b",") + 1 if text else 0


def first_ids(text: bytes, count: int) -> bytes:
    """The first `count` ids of the inside of a JSON list."""
    return b",".join(text.split(b",", count)[:count])


class Reader:
    """Items of a part, in the order of writing."""

    def __init__(self, sources: list[Source], survey: Survey, dealer: Dealer) -> None:
        self._sources = sources
        self._rows = survey.rows[["run", "flags", "output_tokens", "prompt"]]
        self._flags = survey.names.flags.values()
        self._dealer = dealer

    def items(self, part: Part) -> Iterator[Item]:
        """Read the part's samples. Raises DamagedShard, OSError."""
        decode = msgspec.json.Decoder(Line).decode
        several = len(self._sources) > 1
        lines, numbers = self._dealer.lines(part), numbers_of(self._rows, part.rows)
        for text, (run, flags, tokens, prompt) in zip(lines, numbers, strict=True):
            source = self._sources[run]
            try:
                line = decode(text)
            except msgspec.DecodeError as error:
                raise DamagedShard(
                    "A line of a shard is not a sample.",
                    where=str(source.given.run.samples),
                    found=str(error),
                    next_step="python -m runner.runs verify tells more",
                ) from error
            yield Item(
                line,
                source=source,
                id=f"{source.given.name}/{line.sample_id}" if several else line.sample_id,
                flags=self._flags[flags],
                output_tokens=tokens,
                prompt_ordinal=prompt,
            )
