"""The keys about prompts: where they come from, how they are shaped, how many are asked."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING, DictConfig


class SourceKind(Enum):
    """Which block of a part is read."""

    bundled = "bundled"
    hub = "hub"
    file = "file"
    custom = "custom"


class TurnPolicy(Enum):
    """Before which assistant turn a conversation is cut (runner.prompts.turns)."""

    last_user = "last_user"
    first_user = "first_user"
    each_assistant_turn = "each_assistant_turn"


class SpecialTokens(Enum):
    """What becomes of a control token's text inside a prompt's own texts (runner.escaping)."""

    refuse = "refuse"
    escape = "escape"
    allow = "allow"


class Duplicates(Enum):
    """What becomes of a prompt with the messages and tools of an earlier one."""

    keep = "keep"
    drop = "drop"


class OverContext(Enum):
    """What becomes of a prompt that leaves no room for `max_new_tokens` in the context."""

    skip = "skip"
    clip = "clip"


@dataclass
class BundledSource:
    """A prompt file inside `runner/assets/prompts/`."""

    file: str = MISSING


@dataclass
class Columns:
    """Which column holds what an adapter reads (its words: runner.prompts.adapt). "" = the usual
    column of that name, null = none. `id` is the data set's own name for a row."""

    messages: str | None = ""
    conversations: str | None = ""
    trajectory: str | None = ""
    chat: str | None = ""
    instruction: str | None = ""
    input: str | None = ""
    prompt: str | None = ""
    system: str | None = ""
    tools: str | None = ""
    answer: str | None = ""
    id: str | None = ""


@dataclass
class HubSource:
    """A data set on the Hugging Face hub, or a local folder that `datasets` can load.

    `revision` null: the newest commit, looked up at each start. `streaming` reads without keeping
    the set on disk, and then `first_rows` says how much of it (null: all, by the set's own
    metadata). `turns` (null: the part's) and `count` are for this source.
    """

    id: str = MISSING
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    streaming: bool = False
    first_rows: int | None = None
    adapter: str = "auto"
    columns: Columns = field(default_factory=Columns)
    turns: TurnPolicy | None = None
    licence: str = ""
    count: int | None = None


@dataclass
class FileSource:
    """A file, a glob of several, or a folder saved by `datasets`."""

    path: str | None = None
    adapter: str = "auto"
    columns: Columns = field(default_factory=Columns)


def _any_key() -> Any:
    """A mapping whose keys are the user's own: the command line adds one without a `+`."""
    return DictConfig({}, key_type=str, element_type=float, flags={"struct": False})


@dataclass
class Expected:
    """What is expected of a part, to compare with what comes; null: nothing is.

    `shortest` is the fewest tokens of a whole answer. `rates` maps a reason code to the share of
    samples that may have it: canary and breaker also stop a run whose answers leave it by far.
    """

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    truncated_share: float | None = None
    shortest: int = 1
    rates: dict[str, float] = field(default_factory=_any_key)


@dataclass
class Part:
    """One named prompt set of a category: what it reads from each kind of source, and how much.

    `count` null: the category's; null there: the hub block's, or all rows. `weight` is its share of
    `category.total`. `filters`: "level == easy", "score >= 0.8"; rows that do not pass are not
    there. `custom` is {_target_: CLASS, its arguments}. `max_prompt_tokens`: longer prompts are
    skipped. `budget_tokens`: output tokens after which nothing more of this part is sent.
    """

    title: str = ""
    bundled: BundledSource | None = None
    hub: HubSource | None = None
    file: FileSource = field(default_factory=FileSource)
    custom: Any = None
    count: int | None = None
    n: int | None = None
    weight: float = 1.0
    turns: TurnPolicy = TurnPolicy.last_user
    filters: list[str] = field(default_factory=list)
    max_prompt_tokens: int | None = None
    budget_tokens: int | None = None
    expected: Expected = field(default_factory=Expected)


@dataclass
class Category:
    """A named prompt set: one part, or a mix of several. `total`: rows over all parts, shared out
    by weight; without it each part takes `count` rows."""

    name: str = MISSING
    parts: dict[str, Part] = MISSING
    count: int | None = None
    total: int | None = None
    n: int = 1


@dataclass
class Source:
    """Which of a part's blocks is read. `path`, `adapter` and `columns` are for `kind: file`, and
    go before what the part's own `file` block says."""

    kind: SourceKind = MISSING
    path: str | None = None
    adapter: str | None = None
    columns: Columns = field(default_factory=Columns)


@dataclass
class Prompts:
    """How rows become prompts. `over_context`: skip a prompt without room for max_new_tokens, or
    ask it for as many as fit. `exclude`: files of texts or ids that must not be asked. `stop_on`:
    findings (reasons, patterns too) at which the run stops before anything is sent. `workers`:
    rendering processes (null: none for a fast tokenizer, some for a slow one)."""

    special_tokens: SpecialTokens = SpecialTokens.escape
    duplicates: Duplicates = Duplicates.keep
    over_context: OverContext = OverContext.skip
    stop_on: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    workers: int | None = None


@dataclass
class Budget:
    """Output tokens of the whole run after which nothing more is sent (null: no limit)."""

    output_tokens: int | None = None
