"""The formats by their names. Each is imported when it is asked for: some need pyarrow."""

from collections.abc import Callable, Sequence

from runner.export.formats import Format, Options
from runner.export.sources import Source


def _pretokenized(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.pretokenized import Pretokenized

    return Pretokenized()


def _messages(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.messages import Messages

    return Messages(options)


def _sharegpt(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.sharegpt import ShareGpt

    return ShareGpt()


def _parquet(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.parquet import Parquet  # late: pyarrow

    return Parquet()


def _hf(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.hf import HuggingFace  # late: pyarrow

    return HuggingFace()


def _vocabulary(options: Options, sources: Sequence[Source]) -> Format:
    from runner.export.vocabulary import Vocabulary

    return Vocabulary(options, sources[0].profile)


FORMATS: dict[str, Callable[[Options, Sequence[Source]], Format]] = {
    "pretokenized": _pretokenized,
    "messages": _messages,
    "sharegpt": _sharegpt,
    "parquet": _parquet,
    "hf": _hf,
    "vocabulary": _vocabulary,
}
"""To add a format, write a module with a class (see `runner.export.formats`) and name it here."""
