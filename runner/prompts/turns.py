"""Which turn the model writes anew: the conversation is cut before an assistant turn.

    last_user             what follows the last user turn; a conversation that already ends with a
                          user's or a tool's turn is taken whole
    first_user            what follows the first user turn
    each_assistant_turn   every assistant turn that follows a user's or a tool's turn: one row gives
                          several prompts, numbered by assistant turn

`split_reasoning` puts the reasoning of earlier assistant turns where templates look for it, so that
each family keeps or drops it as it was trained to.
"""

import re
from collections.abc import Iterator
from typing import Any

from runner.config import TurnPolicy

_ASKING = ("user", "tool")
_REASONING = (
    re.compile(r"\A\s*<think>(.*?)</think>\s*(.*)\Z", re.DOTALL),
    re.compile(
        r"\A\s*<\|begin_of_thought\|>(.*?)<\|end_of_thought\|>\s*"
        r"(?:<\|begin_of_solution\|>)?(.*?)(?:<\|end_of_solution\|>)?\s*\Z",
        re.DOTALL,
    ),
)
"""How reasoning is written inline: the usual tags, and those of OpenThoughts-114k."""


def cuts(messages: list[dict[str, Any]], policy: TurnPolicy) -> Iterator[tuple[int, int]]:
    """(turn, length): the prompt is `messages[:length]`. Nothing when no turn can be asked for."""
    roles = [message["role"] for message in messages]
    if policy is TurnPolicy.each_assistant_turn:
        yield from _each(roles)
    elif policy is TurnPolicy.first_user and "user" in roles:
        yield 0, roles.index("user") + 1
    elif policy is TurnPolicy.last_user and roles[-1] in _ASKING:
        yield 0, len(roles)
    elif policy is TurnPolicy.last_user and "user" in roles:
        yield 0, len(roles) - roles[::-1].index("user")


def _each(roles: list[str]) -> Iterator[tuple[int, int]]:
    turn = 0
    for position, role in enumerate(roles):
        if role == "assistant":
            if position > 0 and roles[position - 1] in _ASKING:
                yield turn, position
            turn += 1
    if roles[-1] in _ASKING:
        yield turn, len(roles)


def split_reasoning(text: str) -> tuple[str, str]:
    """(reasoning, answer) of an assistant's text; the reasoning is "" where none is marked."""
    for form in _REASONING:
        found = form.match(text)
        if found is not None:
            return found[1].strip(), found[2].strip()
    return "", text
