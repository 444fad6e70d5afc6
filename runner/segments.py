"""Where reasoning, answer and tool calls lie in a sample's ids. Pure, on ids.

Used by the judge, by stats (token counts), by `runs decode` and by the report (colours). It
describes what is there, well-formed or not; whether it is right is the validators' business. Only
special ids are looked at one by one, so its cost hardly grows with the length of the text.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runner.records import ChannelMarkers, Kind, ModeProfile, Segment, TokenProfile

__all__ = ["Kind", "Lengths", "Segment", "lengths_of", "segments_of", "tally"]


class Lengths(NamedTuple):
    """Output tokens by what they are for; special tokens (stop, think, tool markers) are apart."""

    reasoning: int
    answer: int
    tool_call: int
    special: int


def segments_of(
    output_ids: Sequence[int],
    profile: TokenProfile,
    mode: ModeProfile,
    specials: Sequence[int] | None = None,
) -> list[Segment]:
    """The output as consecutive segments that cover it exactly.

    Reasoning lasts from the start (when the prompt opened it) or from a think-open id to the next
    think-close id; a tool call from section_begin to section_end, wherever it stands. A special
    token is a segment of its own. In a format with channels the headers are special, the channel
    says what a message is, and one addressed to a tool is a tool call.

    `specials` are the positions of special ids, for a caller that knows them already.
    """
    if specials is None:
        known = profile.special_tokens
        specials = [i for i, token in enumerate(output_ids) if token in known]
    if profile.channels is not None:
        return _channel_segments(output_ids, profile.channels, specials)
    return _marked_segments(output_ids, profile, mode, specials)


def _marked_segments(
    ids: Sequence[int], profile: TokenProfile, mode: ModeProfile, specials: Sequence[int]
) -> list[Segment]:
    reasoning, calling = mode.think == "open", False
    tools = profile.tools
    found: list[Segment] = []
    start = 0
    for position in specials:
        if start < position:
            found.append(Segment(_kind(reasoning, calling), start, position))
        found.append(Segment(Kind.SPECIAL, position, position + 1))
        start = position + 1
        token = ids[position]
        reasoning = (reasoning or token == profile.think_open) and token != profile.think_close
        if tools is not None:
            calling = (calling or token == tools.section_begin) and token != tools.section_end
    if start < len(ids):
        found.append(Segment(_kind(reasoning, calling), start, len(ids)))
    return found


def _kind(reasoning: bool, calling: bool) -> Kind:
    return Kind.TOOL_CALL if calling else Kind.REASONING if reasoning else Kind.ANSWER


def _channel_segments(
    ids: Sequence[int], channels: ChannelMarkers, specials: Sequence[int]
) -> list[Segment]:
    """Messages `HEADER <message> CONTENT`; the first header began in the prompt."""
    found: list[Segment] = []
    kind, header, start = Kind.SPECIAL, 0, 0
    for position in specials:
        if start < position:
            found.append(Segment(kind, start, position))
        found.append(Segment(Kind.SPECIAL, position, position + 1))
        start = position + 1
        token = ids[position]
        if token == channels.message:
            kind = header_kind(list(ids[header:position]), channels)
        elif token in (channels.start, channels.end):
            kind, header = Kind.SPECIAL, start
    if start < len(ids):
        found.append(Segment(kind, start, len(ids)))
    return found


def header_kind(header: list[int], channels: ChannelMarkers) -> Kind:
    """What a message with this header is; one that names a recipient is a tool call."""
    to, size = channels.recipient, len(channels.recipient)
    if any(header[i : i + size] == to for i in range(len(header) - size + 1)):
        return Kind.TOOL_CALL
    named = header[header.index(channels.channel) + 1 :] if channels.channel in header else []
    analysis = channels.names["analysis"]
    return Kind.REASONING if named[: len(analysis)] == analysis else Kind.ANSWER


def lengths_of(output_ids: Sequence[int], profile: TokenProfile, mode: ModeProfile) -> Lengths:
    """How many output tokens are reasoning, answer, tool call and special."""
    return tally(segments_of(output_ids, profile, mode))


def tally(segments: Sequence[Segment]) -> Lengths:
    """The lengths of these segments, by kind."""
    totals = dict.fromkeys(Kind, 0)
    for kind, start, end in segments:
        totals[kind] += end - start
    return Lengths(
        totals[Kind.REASONING], totals[Kind.ANSWER], totals[Kind.TOOL_CALL], totals[Kind.SPECIAL]
    )
