"""Each family's profile is what its tokenizer and template do; ids are the families' real ones."""

import datetime

import pytest

from runner.config import ModelMode
from runner.errors import ConfigError
from runner.profile import TokenizerFacts, probe
from tests.families.build import profile_named, tokenizer_named
from tests.families.shapes import FAMILIES

THINK = {
    "kimi_k2": {"instant": "none"},
    "kimi_k2_thinking": {"thinking": "none"},
    "kimi_k25": {"thinking": "open", "instant": "closed"},
    "qwen3": {"thinking": "none", "instant": "closed"},
    "qwen35": {"thinking": "open"},
    "deepseek_r1": {"thinking": "open", "instant": "closed"},
    "deepseek_v32": {"thinking": "open", "instant": "closed"},
    "glm45": {"thinking": "none", "instant": "closed"},
    "gpt_oss": {"medium": "none", "low": "none"},
    "minimax_m2": {"thinking": "open"},
    "llama3": {"instant": "none"},
    "smollm2": {"instant": "none"},
}
STOPS = {
    "kimi_k25": [163585, 163586],
    "qwen3": [151643, 151645],
    "qwen35": [248044, 248046],
    "deepseek_r1": [1],
    "glm45": [151329, 151336, 151338],
    "gpt_oss": [199999, 200002, 200012],
    "minimax_m2": [200020],
    "llama3": [128001, 128008, 128009],
    "smollm2": [2],
}
GRAMMARS = {
    "kimi_k25": "kimi",
    "qwen3": "hermes",
    "qwen35": "qwen_xml",
    "deepseek_r1": "deepseek",
    "deepseek_v32": "dsml",
    "llama3": "llama3",
    "glm45": "glm",
    "minimax_m2": "minimax",
}
OPENERS = {
    "kimi_k25": {"user": [163587], "assistant": [163588], "system": [163594]},
    "qwen3": {"user": [151644], "assistant": [151644], "system": [151644]},
    "deepseek_r1": {"user": [128803], "assistant": [128804]},
    "glm45": {"user": [151336], "assistant": [151337], "system": [151335]},
    "gpt_oss": {"user": [200006], "assistant": [200006], "system": [200006]},
    "llama3": {"user": [128006], "assistant": [128006], "system": [128006]},
    "smollm2": {"user": [1], "assistant": [1], "system": [1]},
}
HEADS = {"qwen3": 151936, "qwen35": 248320, "gpt_oss": 201088, "kimi_k25": 163840}


def probed(name: str, **hints: object):
    family = FAMILIES[name]
    modes = {mode: ModelMode(template_kwargs=kwargs) for mode, kwargs in family.modes.items()}
    return probe(tokenizer_named(name), TokenizerFacts(), modes, hints)


@pytest.mark.parametrize("name", FAMILIES)
def test_how_the_prompt_leaves_the_reasoning(name: str) -> None:
    modes = profile_named(name).modes
    assert {mode: one.think for mode, one in modes.items()} == THINK[name]


@pytest.mark.parametrize("name", STOPS)
def test_stop_ids_are_those_of_all_files_together(name: str) -> None:
    assert profile_named(name).stop_ids == STOPS[name]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_tool_grammar(name: str) -> None:
    tools = profile_named(name).tools
    assert (tools.grammar if tools else None) == GRAMMARS.get(
        name, "kimi" if "kimi" in name else None
    )


@pytest.mark.parametrize("name", OPENERS)
def test_role_openers(name: str) -> None:
    assert profile_named(name).role_openers == OPENERS[name]


@pytest.mark.parametrize("name", HEADS)
def test_the_padded_vocabulary_is_wider_than_what_is_assigned(name: str) -> None:
    profile = profile_named(name)
    assert profile.vocab_padded == HEADS[name] >= profile.vocab_assigned


@pytest.mark.parametrize("name", FAMILIES)
def test_stops_and_markers_are_never_forbidden_and_role_openers_are(name: str) -> None:
    profile = profile_named(name)
    forbidden = set(profile.forbidden_output_ids)
    channels = profile.channels
    allowed = {*profile.stop_ids, profile.think_open, profile.think_close}
    assert not forbidden & allowed
    openers = {i for ids in profile.role_openers.values() for i in ids} - allowed
    assert openers - ({channels.start} if channels else set()) <= forbidden


def test_kimi_k25_ends_prompts_as_its_makers_say() -> None:
    modes = profile_named("kimi_k25").modes
    assert modes["thinking"].generation_prompt == [163588, 69702, 163601, 163606]
    assert modes["instant"].generation_prompt == [163588, 69702, 163601, 163606, 163607]
    assert profile_named("kimi_k2").modes["instant"].generation_prompt == [163588, 69702, 163601]


def test_deepseek_adds_no_header_after_a_tool_and_kimi_the_same_one() -> None:
    assert profile_named("deepseek_r1").modes["thinking"].after_tool == []
    assert profile_named("kimi_k25").modes["thinking"].after_tool is None


def test_channels_are_found_instead_of_think_tokens() -> None:
    profile = profile_named("gpt_oss")
    assert profile.channels is not None
    assert profile.channels.names["analysis"] == [35644]
    assert profile.think_open is None


@pytest.mark.parametrize("name", FAMILIES)
def test_an_injected_date_is_seen_and_frozen(name: str) -> None:
    assert profile_named(name).date == ("2026-01-01" if name in ("gpt_oss", "llama3") else "")


def test_a_template_with_a_date_renders_the_same_on_any_day() -> None:
    tokenizer = tokenizer_named("llama3")
    user = [{"role": "user", "content": "hi"}]
    text = tokenizer.decode(tokenizer.render(user, [], {}))
    assert "01 Jan 2026" in text
    other = tokenizer.at(datetime.date(2030, 5, 6))
    assert "06 May 2030" in other.decode(other.render(user, [], {}))


def test_a_date_hint_moves_the_date() -> None:
    assert probed("llama3", date="2027-02-03").date == "2027-02-03"


@pytest.mark.parametrize(
    ("name", "hints"),
    [
        ("kimi_k25", {"tool_grammar": "hermes"}),
        ("kimi_k25", {"think": {"thinking": "closed"}}),
        ("kimi_k25", {"injects_date": True}),
        ("llama3", {"injects_date": False}),
        ("qwen3", {"think_open": "<thinking>", "think_close": "</thinking>"}),
        ("qwen3", {"stop_tokens": ["<|nope|>"]}),
        ("qwen3", {"tool_gramar": "hermes"}),
        ("llama3", {"date": "tomorrow"}),
    ],
)
def test_a_hint_that_contradicts_the_probe_is_an_error(name: str, hints: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        probed(name, **hints)
    assert "model.hints" in str(caught.value)


@pytest.mark.parametrize(
    "hints",
    [{"tool_grammar": "kimi"}, {"think": {"thinking": "open"}}, {"injects_date": False}],
)
def test_a_hint_that_agrees_changes_nothing(hints: dict[str, object]) -> None:
    assert probed("kimi_k25", **hints) == probed("kimi_k25")


def test_hints_add_stops_and_move_what_is_forbidden() -> None:
    profile = probed(
        "kimi_k25",
        stop_tokens=["[EOT]"],
        allowed_tokens=["<|media_begin|>"],
        forbidden_tokens=["<think>"],
    )
    assert 163593 in profile.stop_ids
    assert 163602 not in profile.forbidden_output_ids
    assert 163606 in profile.forbidden_output_ids


def test_a_wrong_switch_is_seen_because_both_modes_render_the_same() -> None:
    modes = {
        "thinking": ModelMode(template_kwargs={"enable_thinking": True}),
        "instant": ModelMode(template_kwargs={"enable_thinking": False}),
    }
    with pytest.raises(ConfigError, match="render the same prompt"):
        probe(tokenizer_named("kimi_k25"), TokenizerFacts(), modes, {})


def test_a_system_message_and_turns_add_up() -> None:
    control = profile_named("kimi_k25").modes["thinking"].control
    assert control["base"] == {163587: 1, 163601: 2, 163586: 1, 163588: 1, 163606: 1}
    assert control["system"] == {163594: 1, 163601: 1, 163586: 1}
    assert profile_named("llama3").modes["instant"].control["system"] == {}
