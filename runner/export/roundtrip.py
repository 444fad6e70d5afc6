"""Does text bring the ids back? Messages are rendered as a trainer would and compared with them.

`same`: the rendered conversation begins with exactly the prompt's and the output's ids (what the
template adds behind the stop is not counted). A trainer passes tool-call arguments as text or as
objects, so both are tried and the better one counts: the share of altered samples is what no such
trainer can avoid.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from runner.export.item import Item
from runner.records import Prompt
from runner.render import RenderFault

Result = Literal["same", "cut", "prompt", "output", "refused"]
"""`cut`: only the end differs, since the template ends an output that was cut; `prompt`: already
the prompt comes out otherwise; `output`: the output does; `refused`: the template cannot render."""


def compare(item: Item, prompt: Prompt, answer: Mapping[str, Any]) -> Result:
    """What a trainer that renders these messages would see of the raw ids."""
    best: Result = "refused"
    order = ("same", "cut", "output", "prompt", "refused")
    for tried in _forms(answer):
        found = _compare(item, prompt, tried)
        best = min(best, found, key=order.index)
        if best == "same":
            break
    return best


def _forms(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield dict(answer)
    if "tool_calls" in answer:
        yield {**answer, "tool_calls": [_with_objects(call) for call in answer["tool_calls"]]}


def _with_objects(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def _compare(item: Item, prompt: Prompt, answer: dict[str, Any]) -> Result:
    source = item.source
    kwargs = source.mode(item.metadata.mode).template_kwargs
    messages = [*prompt.messages, answer]
    try:
        got = source.tokenizer.render(messages, prompt.tools, kwargs, generation_prompt=False)
    except RenderFault:
        return "refused"
    before, after = item.input_ids(), item.output_ids()
    if got[: len(before)] != before:
        return "prompt"
    rest = got[len(before) :]
    if rest[: len(after)] != after:
        return "output"
    return "same" if item.metadata.finish_reason == "stop" or len(rest) == len(after) else "cut"
