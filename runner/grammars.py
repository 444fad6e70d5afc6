"""The think, tool and channel markers of the model families, found in a tokenizer's vocabulary.

Markers are found by their texts, ids are whatever the tokenizer gives them. Which texts there are
was read in the families' own templates and tokenizers; a new family is one more entry here.
"""

from collections.abc import Callable, Mapping

from runner.records import NOT_TOLD, ChannelMarkers, ToolMarkers

THINK_MARKERS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)

END_OF_TURN = ("<|eom_id|>", "<|call|>")
"""Ends of a turn that generation configs forget: SGLang stops at Llama's <|eom_id|> by itself, and
gpt-oss runs past a tool call where <|call|> is missing from an older generation_config.json."""

_KIMI = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
)
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)
_DSML = ("｜DSML｜", "<｜DSML｜")
"""DeepSeek V3.2 writes one token into every tag of a call; its vocabulary has the older markers
too."""
_LLAMA = "<|python_tag|>"
_PAIRS = (
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<tool_call>", "</tool_call>"),
)
_CHANNELS = ("analysis", "commentary", "final")


def find_tools(vocabulary: Mapping[str, int], template: str) -> ToolMarkers | None:
    """The tool-call markers of this vocabulary; the template tells apart what shares a marker."""
    dsml = next((text for text in _DSML if text in vocabulary), None)
    if dsml is not None and ("DSML" in template or _DEEPSEEK[0] not in template):
        return _one_marker(vocabulary[dsml], "dsml")
    for grammar, texts in (("kimi", _KIMI), ("deepseek", _DEEPSEEK)):
        if all(text in vocabulary for text in texts):
            begin, call, argument, end, close = (vocabulary[text] for text in texts)
            return ToolMarkers(
                section_begin=begin,
                call_begin=call,
                argument_begin=argument,
                call_end=end,
                section_end=close,
                grammar=grammar,
            )
    for opening, closing in _PAIRS:
        if opening in vocabulary and closing in vocabulary:
            begin, end = vocabulary[opening], vocabulary[closing]
            return ToolMarkers(
                section_begin=begin,
                call_begin=begin,
                argument_begin=NOT_TOLD,
                call_end=end,
                section_end=end,
                grammar=_pair_grammar(opening, template),
            )
    return _one_marker(vocabulary[_LLAMA], "llama3") if _LLAMA in vocabulary else None


def _one_marker(marker: int, grammar: str) -> ToolMarkers:
    """Calls begin with this id, and nothing but the turn's end ends them."""
    return ToolMarkers(
        section_begin=marker,
        call_begin=marker,
        argument_begin=NOT_TOLD,
        call_end=NOT_TOLD,
        section_end=NOT_TOLD,
        grammar=grammar,
    )


def _pair_grammar(opening: str, template: str) -> str:
    if opening == "<minimax:tool_call>":
        return "minimax"
    if "<arg_key>" in template:
        return "glm"
    return "qwen_xml" if "<function=" in template else "hermes"


def find_channels(
    vocabulary: Mapping[str, int], encode: Callable[[str], list[int]]
) -> ChannelMarkers | None:
    """The markers of a format with channels, None for any other."""
    texts = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")
    if not all(text in vocabulary for text in texts):
        return None
    start, channel, message, end = (vocabulary[text] for text in texts)
    return ChannelMarkers(
        start=start,
        channel=channel,
        message=message,
        end=end,
        names={name: encode(name) for name in _CHANNELS},
        recipient=encode(" to"),
    )


def grammar_of(tools: ToolMarkers | None, channels: ChannelMarkers | None) -> str:
    """The name of the tool grammar; "none" where calls have no markers of their own."""
    if channels is not None:
        return "harmony"
    return tools.grammar if tools is not None else "none"
