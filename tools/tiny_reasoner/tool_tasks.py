"""Tasks with declared tools: one call, two calls, answering after results, and declining."""

import json
from random import Random
from typing import Any

from .example import Example, Message, called, said, user
from .reasoning import bare
from .tool_catalogue import FAMILIES, Family, Tool, Values, declare

# Words that a request shares with a tool that would be wrong for it, so both never meet by chance.
CONFUSABLE = [{"currency", "units"}, {"weather", "time"}]


def _declared(rng: Random, wanted: list[str], count: int) -> dict[str, Tool]:
    """Tools by family: the wanted ones and others, in random order, with unique names."""
    others = [key for key in FAMILIES if key not in wanted]
    chosen = [*wanted, *rng.sample(others, max(0, min(count - len(wanted), len(others))))]
    rng.shuffle(chosen)
    return {key: declare(FAMILIES[key], rng) for key in chosen}


def _count(rng: Random) -> int:
    return rng.choice([1, 1, 2, 2, 2, 3, 3, 4, 10] if rng.random() < 0.3 else [1, 2, 2, 3])


def _fill(template: str, values: Values) -> str:
    return template.format(**values)


def _request(rng: Random, family: Family) -> tuple[Values, str]:
    values = family.draw(rng)
    return values, _fill(rng.choice(family.requests), values)


def _described(tool: Tool, values: Values) -> str:
    pairs = ", ".join(f"{name} {value}" for name, value in tool.arguments(values).items())
    return f"{tool.name} with {pairs}"


def _schemas(tools: dict[str, Tool]) -> list[dict[str, Any]]:
    return [tool.schema for tool in tools.values()]


def one_call(rng: Random) -> Example:
    """One tool fits: call it, with the arguments of the request."""
    key = rng.choice(list(FAMILIES))
    tools = _declared(rng, [key], _count(rng))
    tool = tools[key]
    values, request = _request(rng, tool.family)
    goal = _fill(tool.family.goal, values)
    reasoning = f"The user wants {goal}. I call {_described(tool, values)}."
    reply = called(reasoning, [(f"functions.{tool.name}:0", tool.name, tool.arguments(values))], "")
    return Example("one_call", [user(request)], reply, _schemas(tools))


def two_calls(rng: Random) -> Example:
    """Two requests in one message: two calls in one section, in the order asked."""
    first, second = rng.choice(list(FAMILIES)), rng.choice(list(FAMILIES))
    tools = _declared(rng, list(dict.fromkeys([first, second])), rng.choice([1, 2, 2, 3]))
    asked = [(tools[key], *_request(rng, tools[key].family)) for key in (first, second)]
    joint = rng.choice([" Also: ", " And then: ", " "])
    goals = " and ".join(_fill(tool.family.goal, values) for tool, values, _ in asked)
    plan = ", then ".join(_described(tool, values) for tool, values, _ in asked)
    calls = [
        (f"functions.{tool.name}:{index}", tool.name, tool.arguments(values))
        for index, (tool, values, _) in enumerate(asked)
    ]
    request = joint.join(request for _, _, request in asked)
    reply = called(f"The user wants {goals}. I call {plan}.", calls, "")
    return Example("two_calls", [user(request)], reply, _schemas(tools))


def after_result(rng: Random) -> Example:
    """The result of a call has arrived: answer from it."""
    key = rng.choice(list(FAMILIES))
    tools = _declared(rng, [key], rng.choice([1, 1, 2, 3]))
    tool = tools[key]
    values, request = _request(rng, tool.family)
    call_id = f"functions.{tool.name}:0"
    before = called("", [(call_id, tool.name, tool.arguments(values))], "")
    if rng.random() < 0.5:
        goal = _fill(tool.family.goal, values)
        before["reasoning_content"] = f"The user wants {goal}. I call {_described(tool, values)}."
    result = tool.family.result(rng, values)
    returned: Message = {
        "role": "tool",
        "tool_call_id": call_id,
        "name": tool.name,
        "content": json.dumps(result),
    }
    answer = _fill(tool.family.reply, {**values, **result})
    pairs = ", ".join(f"{name} {value}" for name, value in result.items())
    reply = said(f"The tool returned {pairs}. I can answer now.", answer)
    messages = [user(request), before, returned]
    return Example("after_result", messages, reply, _schemas(tools), answer=answer)


def declined(rng: Random) -> Example:
    """No declared tool fits what is asked: say so, call nothing."""
    key = rng.choice(list(FAMILIES))
    barred = {key}.union(*(pair for pair in CONFUSABLE if key in pair))
    others = rng.sample([name for name in FAMILIES if name not in barred], rng.choice([1, 2, 2, 3]))
    tools = {name: declare(FAMILIES[name], rng) for name in others}
    family = FAMILIES[key]
    values = family.draw(rng)
    # A request that names a tool would contradict the point.
    plain = [text for text in family.requests if "tool" not in text] or list(family.requests)
    request = _fill(rng.choice(plain), values)
    names = ", ".join(tool.name for tool in tools.values())
    goal = _fill(family.goal, values)
    reasoning = f"The user wants {goal}. The tools are {names}. None of them fits."
    answer = f"No tool fits: I cannot look up {goal}."
    reply = said(reasoning, answer)
    return Example("declined", [user(request)], reply, _schemas(tools), answer=answer)


def no_tool_needed(rng: Random) -> Example:
    """A plain sum with unrelated tools declared: work it out without them."""
    base = bare(rng)
    keys = [key for key in FAMILIES if key not in ("calculator", "units", "currency")]
    tools = [declare(FAMILIES[key], rng).schema for key in rng.sample(keys, rng.choice([1, 1, 2]))]
    reasoning = f"No tool needed. {base.reply['reasoning_content']}"
    reply = {**base.reply, "reasoning_content": reasoning}
    return Example("no_tool_needed", base.messages, reply, tools, base.answer)
