"""`pretokenized`: ids and loss mask, which trainers take as they are.

A line is `{"id", "input_ids", "loss_mask", "metadata"}`: `input_ids` is the prompt and then the
output, `loss_mask` has as many numbers, 0 on the prompt (a <think> that the template wrote
included) and 1 on every output id, the stop token too. SpecForge (`data.prompts_path`) and
speculators (`prepare_data.py`) read it without rendering anything.
"""

from pathlib import Path

import msgspec

from runner.export.item import Item
from runner.export.jsonlines import JsonLines, LineWriter

_encode_metadata = msgspec.json.Encoder().encode


class Pretokenized(JsonLines):
    """See the module."""

    name = "pretokenized"
    bytes_per_token = 8.0
    holds_ids = True

    def open(self, path: Path) -> LineWriter:
        return LineWriter(path, encode)


def encode(item: Item) -> bytes:
    """The line of a sample; its ids are copied as text, so nothing can change them."""
    metadata = item.metadata
    prompt, output = metadata.prompt_tokens, metadata.completion_tokens
    mask = b"0," * prompt + b"1," * output
    comma = b"," if prompt and output else b""
    return b"".join(
        (
            b'{"id":',
            msgspec.json.encode(item.id),
            b',"input_ids":[',
            item.input_text,
            comma,
            item.output_text,
            b'],"loss_mask":[',
            mask[:-1],
            b'],"metadata":',
            _encode_metadata(metadata),
            b"}",
        )
    )
