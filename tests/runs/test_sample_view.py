import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records import ChannelMarkers, ModeProfile
from runner.segments import Kind
from runner.view.sample_view import (
    Piece,
    clip,
    ending_of,
    mode_of,
    state_at_end,
    view_of,
)
from tests.runs.conftest import END_THINK, ID_OF, IM_END, PROFILE, THINK, TOKENIZER, Spec, ids

CALL = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"


class Decoder:
    def decode(self, ids):
        return TOKENIZER.decode(ids, skip_special_tokens=False)


def ending(output, **more):
    sample = Spec(0, output=output, **more).sample()
    return ending_of(sample, PROFILE, mode_of(sample, PROFILE))


def cut(output, **more):
    return ending(output, finish="length", max_new_tokens=len(ids(output)), **more)


def test_a_stop_names_its_token():
    assert (
        ending("a</think>b<|im_end|>").text
        == f"whole: stop on id {IM_END} <|im_end|> after 4 tokens"
    )


def test_a_whole_sample_is_neither_cut_nor_odd():
    assert ending("a</think>b<|im_end|>")[1:] == (False, False)


def test_a_cut_inside_reasoning_says_so():
    assert cut("I think so").text == "CUT at 4 tokens: length, inside reasoning"


def test_a_cut_inside_the_answer_says_so():
    assert cut("a</think>It is").text.endswith("length, inside the answer")


def test_a_cut_right_after_reasoning_says_so():
    assert cut("a</think>").text.endswith("inside the answer, right after reasoning")


def test_a_cut_inside_a_tool_call_says_so():
    assert cut("a</think>" + CALL).text.endswith("inside a tool call")


def test_a_cut_is_cut_and_odd():
    assert cut("I think so")[1:] == (True, True)


def test_a_changed_limit_is_told():
    text = ending("I think so", finish="length", max_new_tokens=768).text
    assert text.endswith("768 were asked for, so the engine changed the limit")


def test_a_changed_limit_names_what_the_engine_told():
    told = {"finish_length": 5}
    text = ending("I think so", finish="length", max_new_tokens=768, changes=told).text
    assert text.endswith("changed the limit to 5")


def test_a_stop_inside_reasoning_is_odd():
    found = ending("The answer is 4.<|im_end|>")
    assert found.odd
    assert found.text.endswith("but still inside reasoning")


def test_a_stop_without_an_answer_is_odd():
    assert ending("a</think><|im_end|>").text.endswith("but with an empty answer")


def test_a_tool_call_is_an_answer():
    assert not ending(
        "a</think>" + CALL + "<|tool_call_end|><|tool_calls_section_end|><|im_end|>"
    ).odd


def test_a_stop_on_text_shows_the_text():
    told = {"matched_token": -1, "matched_text": "\n\nUser:"}
    assert "stop on the text '\\n\\nUser:'" in ending("a</think>b", changes=told).text


def test_a_stop_that_the_engine_did_not_explain_says_so():
    assert "did not name" in ending("a</think>b", changes={"matched_token": -1}).text


def test_an_empty_output_can_be_told_of():
    assert ending("", finish="length", max_new_tokens=0).text.startswith("CUT at 0 tokens")


@pytest.mark.parametrize(
    ("output", "mode", "kind"),
    [
        ("", "thinking", Kind.REASONING),
        ("", "instant", Kind.ANSWER),
        ("a</think>", "thinking", Kind.ANSWER),
        ("a<think>", "instant", Kind.REASONING),
        ("a</think>" + CALL, "thinking", Kind.TOOL_CALL),
    ],
)
def test_state_at_end(output, mode, kind):
    assert state_at_end(ids(output), PROFILE, PROFILE.modes[mode]) is kind


def test_an_unknown_mode_leaves_the_start_to_the_model():
    sample = Spec(0, output="Hi.<|im_end|>", changes={"mode": "gone"}).sample()
    assert view_of(sample, PROFILE, Decoder()).output[0].kind is Kind.ANSWER


def test_stretches_cover_output_and_prompt():
    view = view_of(Spec(0).sample(), PROFILE, Decoder())
    for stretches, tokens in (
        (view.output, view.sample.output_ids),
        (view.prompt, view.sample.input_ids),
    ):
        assert [i for one in stretches for i in range(one.start, one.end)] == list(
            range(len(tokens))
        )


def test_text_of_a_stretch_is_decoded_at_once():
    output = "Größe 你好</think>ok<|im_end|>"
    assert (
        view_of(Spec(0, output=output).sample(), PROFILE, Decoder()).output[0].text == "Größe 你好"
    )


def test_special_tokens_are_found_with_their_positions():
    view = view_of(Spec(0, output="a</think>b<|im_end|>").sample(), PROFILE, Decoder())
    assert view.boundaries == [("</think>", 1), ("<|im_end|>", 3)]


def test_ids_that_the_tokenizer_does_not_have_are_shown_as_ids():
    sample = Spec(0, changes={"output_ids": [*ids("Hi"), 1275, *ids("you"), END_THINK]}).sample()
    assert view_of(sample, PROFILE, Decoder()).output[0].text == "Hi<id 1275>you"


def test_the_prompt_shows_its_special_tokens():
    view = view_of(Spec(0).sample(), PROFILE, Decoder())
    assert view.prompt[-1].text == "<think>"
    assert view.sample.input_ids[-1] == THINK


CHANNELS = msgspec.structs.replace(
    PROFILE,
    think_open=None,
    think_close=None,
    tools=None,
    channels=ChannelMarkers(
        start=ID_OF["<|im_user|>"],
        channel=ID_OF["<|im_system|>"],
        message=ID_OF["<|im_middle|>"],
        end=IM_END,
        names={name: ids(name) for name in ("assistant", "analysis", "final")},
        recipient=ids("=")[-1:],
    ),
    modes={"thinking": ModeProfile(template_kwargs={}, generation_prompt=[], think="none")},
)
"""A format with channels, spelt with the special tokens of the bundled model."""
ANALYSIS = "<|im_system|>analysis<|im_middle|>Hm."
FINAL = "<|im_user|>assistant<|im_system|>final<|im_middle|>Yes."
CALLING = "<|im_user|>assistant to=f<|im_system|>analysis<|im_middle|>{}"


def channel_view(output, **more):
    return view_of(Spec(0, output=output, **more).sample(), CHANNELS, Decoder())


def test_headers_of_channels_are_shown_as_special_text():
    view = channel_view(f"{ANALYSIS}<|im_end|>{FINAL}[EOS]")
    assert "".join(one.text for one in view.output) == f"{ANALYSIS}<|im_end|>{FINAL}[EOS]"
    assert [one.text for one in view.output if one.kind is Kind.REASONING] == ["Hm."]
    assert [one.text for one in view.output if one.kind is Kind.ANSWER] == ["Yes."]
    assert "analysis" not in [text for text, _ in view.boundaries]


@pytest.mark.parametrize(
    ("output", "odd"),
    [
        (f"{ANALYSIS}<|im_end|>{FINAL}[EOS]", False),
        (f"{ANALYSIS}<|im_end|>{CALLING}[EOS]", False),
        (f"{ANALYSIS}[EOS]", True),
        (f"{ANALYSIS}<|im_end|><|im_user|>assistant[EOS]", True),
    ],
)
def test_the_end_of_a_format_with_channels(output, odd):
    assert channel_view(output).ending.odd is odd


def test_a_cut_inside_a_header_says_so():
    view = channel_view(f"{ANALYSIS}<|im_end|><|im_user|>assis", finish="length")
    assert "inside the header of a message" in view.ending.text


def test_clip_keeps_head_and_tail():
    [head, gap, tail] = clip([Piece("a" * 50 + "b" * 1000 + "c" * 50)], 40)
    assert (head.text, tail.text) == ("a" * 20, "c" * 20)
    assert gap == Piece(" … 1,060 characters left out … ", gap=True)


def test_clip_leaves_a_short_text_alone():
    assert clip([Piece("a" * 60)], 40) == [Piece("a" * 60)]


def test_clip_of_nothing_shows_all():
    assert clip([Piece("a" * 6000)], 0) == [Piece("a" * 6000)]


def test_clip_keeps_special_pieces_special():
    pieces = [Piece("<|im_user|>", special=True), Piece("x" * 500), Piece("<think>", special=True)]
    clipped = clip(pieces, 40)
    assert (clipped[0], clipped[-1]) == (pieces[0], pieces[-1])


def test_a_special_token_is_never_cut():
    pieces = [Piece("x" * 15), Piece("<|im_user|>", special=True), Piece("y" * 500)]
    assert clip(pieces, 40)[:2] == [
        Piece("x" * 15),
        Piece(" … 491 characters left out … ", gap=True),
    ]


@given(st.lists(st.text(), max_size=5), st.integers(min_value=20, max_value=60))
def test_clip_never_makes_text_longer_and_counts_what_it_left_out(texts, chars):
    clipped = clip([Piece(text) for text in texts], chars)
    total = sum(map(len, texts))
    assert sum(len(piece.text) for piece in clipped) <= total
    kept = sum(len(piece.text) for piece in clipped if not piece.gap)
    left_out = next((int(p.text.split()[1].replace(",", "")) for p in clipped if p.gap), 0)
    assert kept + left_out == total
