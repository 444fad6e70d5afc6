"""A source of the user's own, by `_target_`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.config import Config
from runner.errors import ConfigError
from runner.ledger import read_plan
from runner.resolve import Resolved
from tests.prompts.conftest import plan_of


class Countries:
    """What docs/prompts.md shows."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.fingerprint = ",".join(names)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for name in self._names:
            asked = f"What is the capital of {name}?"
            yield {"messages": [{"role": "user", "content": asked}], "answer": "?"}


class NotASource:
    pass


HERE = "tests.prompts.test_custom"


def overrides(target: str, names: str = "[Peru,Mali]") -> list[str]:
    custom = f"{{_target_: {HERE}.{target}, names: {names}}}"
    return ["source=custom", f"category.parts.B4.custom={custom}"]


def test_rows_of_a_class(config: Callable[..., Config]) -> None:
    resolved, _ = plan_of(config(*overrides("Countries")))
    assert sorted(p.sample_id for p in read_plan(resolved.run)) == ["B4-0-0", "B4-1-0"]
    other = Resolved(config(*overrides("Countries", "[Chad]")), [])
    assert other.run.path != resolved.run.path


def test_a_class_that_cannot_be_made_or_used(config: Callable[..., Config]) -> None:
    for target in ("Nobody", "NotASource"):
        with pytest.raises(ConfigError, match=r"category\.parts\.B4\.custom"):
            Resolved(config(*overrides(target)), [])
    custom = f"{{_target_: {HERE}.NotASource}}"
    with pytest.raises(ConfigError, match="__len__, __iter__, fingerprint"):
        Resolved(config("source=custom", f"category.parts.B4.custom={custom}"), [])


@pytest.mark.parametrize("kind", ["hub", "custom"])
def test_a_part_without_the_block_that_is_read(kind: str, config: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="source=bundled"):
        config(f"source={kind}", "category.parts.B4.hub=null")
