"""What a pinned tokenizer and chat template say about ids: plain data, part of `runner.records`.

Import these from there. `runner.profile` finds what they hold by probing; nothing is assumed.
"""

from typing import Any, Literal

import msgspec


class ToolMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """Ids that enclose tool calls, and how what stands between them is read.

    Families without a section of calls have the call's own markers as section markers;
    `argument_begin` is NOT_TOLD where name and arguments are not parted by a token. The grammars
    are described in docs/validators.md.
    """

    section_begin: int
    call_begin: int
    argument_begin: int
    call_end: int
    section_end: int
    grammar: str = "kimi"


class ChannelMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of a format that writes messages into named channels (gpt-oss) and has no think token.

    `names` maps each channel to the ids of its name; `recipient` are the ids in a header behind
    which it is said to whom the message goes: to a tool.
    """

    start: int
    channel: int
    message: int
    end: int
    names: dict[str, list[int]]
    recipient: list[int]


class ModeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the chat template does in one mode, found by rendering probe conversations.

    `generation_prompt` are the ids that every prompt must end with; `after_tool` those where the
    last message is a tool's: None where they are the same, [] where the template adds none or
    knows no tools. `think` says in which state the model starts:
    "open" (the prompt opened it), "closed" (the prompt closed it: the answer begins at once) or
    "none" (the prompt leaves it to the model). `control` counts special ids: of one user turn with
    the generation prompt ("base"), and what a system message ("system") and a further exchange
    ("turn") add; a key is missing where the template does not add them up so simply.
    """

    template_kwargs: dict[str, Any]
    generation_prompt: list[int]
    think: Literal["open", "closed", "none"]
    after_tool: list[int] | None = None
    control: dict[str, dict[int, int]] = {}


class TokenProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the pinned tokenizer and chat template say about ids. Probed, never assumed.

    `assigned` are the half-open ranges of ids that the tokenizer maps to a token; the model may
    have more output rows (`vocab_padded`), and an id in that gap is never right. `role_openers`
    maps a role to the special ids with which the template opens its message. `date` is the frozen
    date that the template writes into prompts, "" for one that writes none.
    """

    stop_ids: list[int]
    think_open: int | None = None
    think_close: int | None = None
    tools: ToolMarkers | None = None
    channels: ChannelMarkers | None = None
    forbidden_output_ids: list[int] = []
    assigned: list[tuple[int, int]]
    vocab_padded: int
    special_tokens: dict[int, str]
    bos_id: int | None = None
    role_openers: dict[str, list[int]] = {}
    date: str = ""
    modes: dict[str, ModeProfile]
    template_sha256: str
    tokenizer_sha256: str

    @property
    def vocab_assigned(self) -> int:
        """One more than the highest id that the tokenizer assigns."""
        return max((end for _, end in self.assigned), default=0)
