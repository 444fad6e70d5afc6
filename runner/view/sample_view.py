"""One sample as a person reads it: how it ended, and its ids cut into stretches of text. Pure.

Ids are the truth and this is a view. The ids of a stretch are decoded at once, since a character
can be spread over several tokens; a special token is decoded by itself.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from runner.records import NOT_TOLD, ModeProfile, Sample, TokenProfile
from runner.segments import Kind, Lengths, Segment, lengths_of, segments_of

NO_ID = -1
"""An id that no tokenizer has, used to ask which kind of stretch would come next."""


class Decoder(Protocol):
    """Ids to text, special tokens visible."""

    def decode(self, ids: list[int]) -> str: ...


class Stretch(NamedTuple):
    """A segment with its text: ids [start, end) of the prompt or of the output."""

    kind: Kind
    start: int
    end: int
    text: str


class Ending(NamedTuple):
    """How an output ended, in one line. `cut`: by length; `odd`: worth a second look."""

    text: str
    cut: bool
    odd: bool


class SampleView(NamedTuple):
    """What is shown of a sample beside its verdicts. `boundaries` are the special tokens of the
    output with their positions, counted from 0."""

    sample: Sample
    ending: Ending
    lengths: Lengths
    prompt: list[Stretch]
    output: list[Stretch]
    boundaries: list[tuple[str, int]]


def view_of(sample: Sample, profile: TokenProfile, decoder: Decoder) -> SampleView:
    """Cut and decode a sample."""
    mode = mode_of(sample, profile)
    return SampleView(
        sample=sample,
        ending=ending_of(sample, profile, mode),
        boundaries=[
            (profile.special_tokens[token], position)
            for position, token in enumerate(sample.output_ids)
            if token in profile.special_tokens
        ],
        lengths=lengths_of(sample.output_ids, profile, mode),
        prompt=list(
            _decoded(sample.input_ids, _prompt_segments(sample, profile), profile, decoder)
        ),
        output=list(
            _decoded(
                sample.output_ids,
                segments_of(sample.output_ids, profile, mode),
                profile,
                decoder,
            )
        ),
    )


def mode_of(sample: Sample, profile: TokenProfile) -> ModeProfile:
    """The profile of the sample's mode; a mode that the profile does not have leaves the start
    of the output to the model."""
    unknown = ModeProfile(template_kwargs={}, generation_prompt=[], think="none")
    return profile.modes.get(sample.mode, unknown)


def _prompt_segments(sample: Sample, profile: TokenProfile) -> Iterator[Segment]:
    start = 0
    for position, token in enumerate(sample.input_ids):
        if token in profile.special_tokens:
            if start < position:
                yield Segment(Kind.PROMPT, start, position)
            yield Segment(Kind.SPECIAL, position, position + 1)
            start = position + 1
    if start < len(sample.input_ids):
        yield Segment(Kind.PROMPT, start, len(sample.input_ids))


def _decoded(
    ids: list[int],
    segments: Iterator[Segment] | list[Segment],
    profile: TokenProfile,
    decoder: Decoder,
) -> Iterator[Stretch]:
    for kind, start, end in segments:
        name = profile.special_tokens.get(ids[start], "") if kind is Kind.SPECIAL else ""
        yield Stretch(kind, start, end, name or _text_of(ids[start:end], profile, decoder))


def _text_of(ids: list[int], profile: TokenProfile, decoder: Decoder) -> str:
    """Decoded text; ids that the tokenizer does not have are shown as <id N>."""
    if all(_is_assigned(token, profile) for token in ids):
        return decoder.decode(ids)
    parts: list[str] = []
    known: list[int] = []
    for token in ids:
        if _is_assigned(token, profile):
            known.append(token)
            continue
        parts += [decoder.decode(known) if known else "", f"<id {token}>"]
        known = []
    return "".join([*parts, decoder.decode(known) if known else ""])


def _is_assigned(token: int, profile: TokenProfile) -> bool:
    return any(start <= token < end for start, end in profile.assigned)


def state_at_end(output_ids: list[int], profile: TokenProfile, mode: ModeProfile) -> Kind:
    """What the model was writing when the output ended: reasoning, answer or tool call."""
    return segments_of([*output_ids, NO_ID], profile, mode)[-1].kind


_PLACES = {
    Kind.REASONING: "reasoning",
    Kind.ANSWER: "the answer",
    Kind.TOOL_CALL: "a tool call",
    Kind.SPECIAL: "the header of a message",
}


def ending_of(sample: Sample, profile: TokenProfile, mode: ModeProfile) -> Ending:
    """The answer to: is this cut short?"""
    if sample.finish == "length":
        place = _place(sample, state_at_end(sample.output_ids, profile, mode), profile)
        text = f"CUT at {_tokens(sample)}: length, inside {place}{_clamped(sample)}"
        return Ending(text, cut=True, odd=True)
    text = f"whole: stop on {_stopper(sample, profile)} after {_tokens(sample)}"
    if unfinished := _unfinished(sample, profile, mode):
        return Ending(f"{text}, but still inside {unfinished}", cut=False, odd=True)
    lengths = lengths_of(sample.output_ids, profile, mode)
    if lengths.answer + lengths.tool_call == 0:
        return Ending(f"{text}, but with an empty answer", cut=False, odd=True)
    return Ending(text, cut=False, odd=False)


def _unfinished(sample: Sample, profile: TokenProfile, mode: ModeProfile) -> str:
    """What the model stopped in the middle of, or "".

    In a format with channels the stop token itself ends a message, which may be a tool call.
    """
    if profile.channels is None:
        state = state_at_end(sample.output_ids, profile, mode)
        return "" if state is Kind.ANSWER else _PLACES[state]
    state = state_at_end(sample.output_ids[:-1], profile, mode)
    return "" if state in (Kind.ANSWER, Kind.TOOL_CALL) else _PLACES[state]


def _tokens(sample: Sample) -> str:
    return f"{len(sample.output_ids):,} token" + ("s" if len(sample.output_ids) != 1 else "")


def _place(sample: Sample, state: Kind, profile: TokenProfile) -> str:
    last = sample.output_ids[-1] if sample.output_ids else NO_ID
    just_closed = last == profile.think_close and last in profile.special_tokens
    return "the answer, right after reasoning" if just_closed else _PLACES[state]


def _clamped(sample: Sample) -> str:
    """What to say when the output ended before the length that was asked for."""
    asked, got = sample.requested_max_new_tokens, len(sample.output_ids)
    if got == asked:
        return ""
    told = f" to {sample.finish_length:,}" if sample.finish_length not in (NOT_TOLD, got) else ""
    return f"; {asked:,} were asked for, so the engine changed the limit{told}"


def _stopper(sample: Sample, profile: TokenProfile) -> str:
    """The token or text that ended the output, or that the engine did not say."""
    token = sample.matched_token
    if token != NOT_TOLD:
        name = profile.special_tokens.get(token, "")
        return f"id {token} {name}".rstrip()
    if sample.matched_text:
        return f"the text {sample.matched_text!r}"
    return "something the engine did not name"


class Piece(NamedTuple):
    """Text to print: of a special token, ordinary, or (`gap`) words of ours."""

    text: str
    special: bool = False
    gap: bool = False


def clip(pieces: list[Piece], chars: int) -> list[Piece]:
    """At most `chars` characters of the pieces together, head and tail kept; 0 = all of them.

    What is left out is told of in a gap of its own. A special token is shown whole or not at all,
    and a text is left alone where the gap would be longer than what it replaces.
    """
    total = sum(len(piece.text) for piece in pieces)
    if not chars or total <= chars + len(_gap(total - chars).text):
        return pieces
    head = list(_fitting(pieces, chars - chars // 2, from_end=False))
    tail = list(_fitting(pieces[::-1], chars // 2, from_end=True))[::-1]
    kept = sum(len(piece.text) for piece in head + tail)
    return [*head, _gap(total - kept), *tail]


def _gap(left_out: int) -> Piece:
    return Piece(f" … {left_out:,} characters left out … ", gap=True)


def _fitting(pieces: list[Piece], room: int, *, from_end: bool) -> Iterator[Piece]:
    for piece in pieces:
        if len(piece.text) > room:
            if room and not piece.special:
                yield piece._replace(text=piece.text[-room:] if from_end else piece.text[:room])
            return
        room -= len(piece.text)
        yield piece
