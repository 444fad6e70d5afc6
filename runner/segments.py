"""Where reasoning, answer and tool calls lie in a sample's ids. Pure, on ids, one pass.

Used by stats (token counts), by `runs decode` and by the report (colours). It describes what is
there, well-formed or not; whether it is right is the validators' business.
"""

from enum import StrEnum
from typing import NamedTuple

from runner.records import ModeProfile, TokenProfile


class Kind(StrEnum):
    """What a stretch of ids is."""

    PROMPT = "prompt"
    REASONING = "reasoning"
    ANSWER = "answer"
    TOOL_CALL = "tool_call"
    SPECIAL = "special"


class Segment(NamedTuple):
    """The half-open range [start, end) of a list of ids."""

    kind: Kind
    start: int
    end: int


class Lengths(NamedTuple):
    """Output tokens by what they are for; special tokens (stop, think, tool markers) are apart."""

    reasoning: int
    answer: int
    tool_call: int
    special: int


def segments_of(output_ids: list[int], profile: TokenProfile, mode: ModeProfile) -> list[Segment]:
    """The output as consecutive segments that cover it exactly.

    Reasoning lasts from the start (when the prompt opened it) or from a think-open id to the next
    think-close id; a tool call from section_begin to section_end, wherever it stands. A special
    token is a segment of its own.
    """
    reasoning, calling = mode.think == "open", False
    found: list[Segment] = []
    for position, token in enumerate(output_ids):
        if token in profile.special_tokens:
            found.append(Segment(Kind.SPECIAL, position, position + 1))
            reasoning = (reasoning or token == profile.think_open) and token != profile.think_close
            if profile.tools is not None:
                calling = (calling or token == profile.tools.section_begin) and (
                    token != profile.tools.section_end
                )
            continue
        kind = Kind.TOOL_CALL if calling else Kind.REASONING if reasoning else Kind.ANSWER
        if found and found[-1].kind is kind and found[-1].end == position:
            found[-1] = found[-1]._replace(end=position + 1)
        else:
            found.append(Segment(kind, position, position + 1))
    return found


def lengths_of(output_ids: list[int], profile: TokenProfile, mode: ModeProfile) -> Lengths:
    """How many output tokens are reasoning, answer, tool call and special."""
    totals = dict.fromkeys(Kind, 0)
    for kind, start, end in segments_of(output_ids, profile, mode):
        totals[kind] += end - start
    return Lengths(
        totals[Kind.REASONING], totals[Kind.ANSWER], totals[Kind.TOOL_CALL], totals[Kind.SPECIAL]
    )
