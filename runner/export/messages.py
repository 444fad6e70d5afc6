"""`messages`: OpenAI messages, decoded from the ids, for trainers that render text themselves.

A line is `{"id", "messages", "tools", "metadata"}`. `messages` holds the prompt's messages and then
the answer with `content`, `reasoning_content` and `tool_calls` (arguments as a JSON text); `tools`
is a JSON text, "[]" for none, since schemas differ from row to row and readers of JSON lines want
one type. TorchSpec, ModelOpt and Automodel read it; `--key conversations` names the list as
SpecForge, speculators and DeepSpec want it. What a template makes of it is not what the model
wrote: the manifest says for how many samples (see `roundtrip`).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from runner.export.conversation import answer_of, as_openai, load_call_reader
from runner.export.formats import Finished, Options, PartFile
from runner.export.item import Item
from runner.export.jsonlines import JsonLines, LineWriter
from runner.export.roundtrip import compare


class Messages(JsonLines):
    """See the module. Raises ConfigError for a call reader that cannot be loaded."""

    name = "messages"
    bytes_per_token = 6.0
    holds_ids = False

    def __init__(self, options: Options) -> None:
        self._key = options.key
        self._read_calls = load_call_reader(options.call_reader)

    def open(self, path: Path) -> LineWriter:
        notes: dict[str, int] = {}
        return LineWriter(path, lambda item: self._encode(item, notes), notes)

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        trips = round_trips(notes)
        return Finished(
            summary={"round_trip": trips},
            words=[
                f"{model}: text alters {trip['altered']:,} of {trip['compared']:,} samples"
                for model, trip in trips.items()
            ],
        )

    def _encode(self, item: Item, notes: dict[str, int]) -> bytes | str:
        prompt = item.prompt()
        if prompt is None:
            return "prompt_not_found"
        answer = answer_of(item, prompt, self._read_calls)
        if answer.fault:
            return answer.fault
        found = compare(item, prompt, answer.message)
        name = f"{item.metadata.model or item.metadata.run}/{found}"
        notes[name] = notes.get(name, 0) + 1
        return msgspec.json.encode(
            {
                "id": item.id,
                self._key: [*map(as_openai, prompt.messages), answer.message],
                "tools": json.dumps(prompt.tools, ensure_ascii=False),
                "metadata": item.metadata,
            }
        )


def round_trips(notes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """model -> how many samples were compared, how many are altered, and how many by `Result`."""
    found: dict[str, dict[str, int]] = {}
    for name, number in notes.items():
        model, _, result = name.rpartition("/")
        trip = found.setdefault(model, {"compared": 0, "altered": 0})
        trip["compared"] += number
        trip["altered"] += number if result != "same" else 0
        trip[result] = number
    return found
