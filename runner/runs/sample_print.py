"""A `SampleView` with its verdicts, on a terminal or as plain text.

Colour tells the stretches apart on a terminal; everywhere each begins with a marker such as
`[reasoning]` in the first column. Text of the sample is always indented and escaped, so that no
model can write something that looks like a marker or a verdict.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from runner.records import JudgedVerdict, Judgement
from runner.runs.screen import say, say_labelled
from runner.segments import Kind
from runner.view.escape import escapes_of, safe, safe_line
from runner.view.picks import Pick
from runner.view.sample_view import Piece, SampleView, Stretch, clip

STYLES = {
    Kind.PROMPT: "blue",
    Kind.REASONING: "cyan",
    Kind.ANSWER: "",
    Kind.TOOL_CALL: "yellow",
    Kind.SPECIAL: "magenta",
}
_ESCAPE_STYLE = "reverse"
_GAP_STYLE = "dim italic"
_SEVERITY_STYLES = {"reject": "bold red", "error": "bold red", "flag": "yellow", "info": "dim"}
_INDENT = 2
_MAX_BOUNDARIES = 12
_MAX_IDS = 40
"""Ids shown of each end of a stretch unless all are wanted."""


@dataclass(frozen=True)
class Look:
    """How much of a sample is shown. `chars` 0 = all of the text and of the ids."""

    chars: int = 800
    prompt: bool = True
    ids: bool = False


def print_sample(
    screen: Console, view: SampleView, *, pick: Pick, judgement: Judgement | None, look: Look
) -> None:
    """One sample: head, verdicts, text, and an empty line."""
    sample = view.sample
    again = f"  try {sample.try_}" if sample.try_ > 1 else ""
    place = f"  category {sample.category}  row {sample.row}  mode {sample.mode}{again}"
    say(screen, (safe_line(sample.sample_id), "bold"), (safe_line(place), ""))
    _line(screen, "picked", safe_line("; ".join(pick.why)))
    _line(
        screen, "ended", safe_line(view.ending.text), "bold yellow" if view.ending.odd else "green"
    )
    _line(screen, "tokens", _counts(view))
    for style, text in verdict_lines(judgement):
        _line(screen, "verdict", text, style)
    if view.boundaries:
        _line(screen, "at", _boundaries(view))
    if look.prompt:
        _print_prompt(screen, view, look)
    for special, group in groupby(view.output, lambda one: one.kind is Kind.SPECIAL):
        if special:
            _print_specials(screen, list(group))
        else:
            for stretch in group:
                _print_stretch(screen, stretch, view.sample.output_ids, look)
    if not view.output:
        say(screen, "[no output at all]")
    say(screen, "")


def _line(screen: Console, name: str, text: str, style: str = "") -> None:
    say_labelled(screen, f"  {name}", text, width=11, style=style)


def _counts(view: SampleView) -> str:
    sample, lengths = view.sample, view.lengths
    total = len(sample.input_ids) + len(sample.output_ids)
    return (
        f"prompt {len(sample.input_ids):,}, reasoning {lengths.reasoning:,}, "
        f"answer {lengths.answer:,}, tool call {lengths.tool_call:,}, "
        f"special {lengths.special:,}; total {total:,}"
    )


def _boundaries(view: SampleView) -> str:
    found = view.boundaries
    shown = ", ".join(f"{text} {position:,}" for text, position in found[:_MAX_BOUNDARIES])
    more = len(found) - _MAX_BOUNDARIES
    return safe_line(shown) + (f", and {more:,} more" if more > 0 else "")


def verdict_lines(judgement: Judgement | None) -> Iterator[tuple[str, str]]:
    """(style, text) for each failed check, most serious first, then one line for the rest."""
    if judgement is None:
        yield "dim", "not judged yet"
        return
    rank = {"reject": 0, "error": 1, "flag": 2}
    failed = {k: v for k, v in judgement.verdicts.items() if v.outcome in ("fail", "error")}
    for name in sorted(failed, key=lambda n: (rank.get(failed[n].severity or "error", 3), n)):
        severity = failed[name].severity or "error"
        yield _SEVERITY_STYLES.get(severity, ""), _failed(name, severity, failed[name])
    for outcome, word in (("pass", "passed"), ("skip", "does not apply")):
        names = [name for name, one in judgement.verdicts.items() if one.outcome == outcome]
        if names:
            yield "dim", safe_line(f"{word}: {', '.join(names)}")
    if not judgement.verdicts:
        yield "dim", "no checks"


def _failed(name: str, severity: str, verdict: JudgedVerdict) -> str:
    score = "" if verdict.score is None else f" (score {verdict.score:g})"
    detail = f": {verdict.detail}" if verdict.detail else ""
    return safe_line(
        f"{severity.upper()} {name} {verdict.reason or verdict.outcome}{score}{detail}"
    )


def _print_prompt(screen: Console, view: SampleView, look: Look) -> None:
    ids = view.sample.input_ids
    special = sum(one.kind is Kind.SPECIAL for one in view.prompt)
    _marker(screen, Kind.PROMPT, f"{len(ids):,} tokens, {special:,} of them special")
    pieces = [Piece(one.text, special=one.kind is Kind.SPECIAL) for one in view.prompt]
    _print_pieces(screen, clip(pieces, look.chars), STYLES[Kind.PROMPT])
    if look.ids:
        _print_ids(screen, ids, look)


def _print_stretch(screen: Console, one: Stretch, ids: list[int], look: Look) -> None:
    count = one.end - one.start
    _marker(screen, one.kind, f"{count:,} token{'s' if count != 1 else ''} from {one.start:,}")
    _print_pieces(screen, clip([Piece(one.text)], look.chars), STYLES[one.kind])
    if look.ids:
        _print_ids(screen, ids[one.start : one.end], look)


def _print_specials(screen: Console, group: list[Stretch]) -> None:
    text = Text("[special] ", "dim")
    text.append(" ".join(safe_line(one.text) for one in group), STYLES[Kind.SPECIAL])
    text.append(f"  at {group[0].start:,}", "dim")
    screen.print(text, soft_wrap=not screen.is_terminal)


def _marker(screen: Console, kind: Kind, about: str) -> None:
    say(screen, (f"[{kind.value}]", f"bold {STYLES[kind]}".strip()), (f" {about}", "dim"))


def _print_pieces(screen: Console, pieces: Iterable[Piece], style: str) -> None:
    """Indented; special tokens inside a prompt stand between ⟦ and ⟧, which ordinary text cannot
    hold here: there they are escaped."""
    text = Text(style=style)
    for piece in pieces:
        if piece.gap:
            text.append(piece.text, _GAP_STYLE)
        elif piece.special:
            text.append(f"⟦{safe(piece.text)}⟧", STYLES[Kind.SPECIAL])
        else:
            _append_escaped(text, piece.text)
    _print_indented(screen, text)


def _append_escaped(text: Text, content: str) -> None:
    for stretch, escaped in escapes_of(content):
        shown = stretch.replace("⟦", "\\u27e6").replace("⟧", "\\u27e7")
        text.append(shown, _ESCAPE_STYLE if escaped else "")


def _print_indented(screen: Console, text: Text) -> None:
    if screen.is_terminal:
        screen.print(Padding(text, (0, 0, 0, _INDENT)))
        return
    for line in text.split("\n", allow_blank=True):
        screen.print(Text(" " * _INDENT) + line, soft_wrap=True)


def _print_ids(screen: Console, ids: list[int], look: Look) -> None:
    shown = [str(token) for token in ids]
    if look.chars and len(shown) > 2 * _MAX_IDS:
        left_out = f"… {len(shown) - 2 * _MAX_IDS:,} ids left out …"
        shown = [*shown[:_MAX_IDS], left_out, *shown[-_MAX_IDS:]]
    _print_indented(screen, Text("ids " + " ".join(shown), "dim"))
