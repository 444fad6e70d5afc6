"""preview=N shows what planning would do, and starts and writes nothing."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner.config import Config
from runner.ledger import read_plan
from runner.preview import clipped, ids_line, show_preview
from runner.resolve import Resolved
from tests.prompts.conftest import plan_of

Preview = Callable[..., str]


@pytest.fixture
def preview(config: Callable[..., Config]) -> Preview:
    def show(*overrides: str) -> str:
        console = Console(record=True, width=200, file=io.StringIO())
        assert show_preview(Resolved(config(*overrides), []), console) == 0
        return console.export_text()

    return show


def test_it_shows_the_first_prompts_of_the_plan(
    preview: Preview, config: Callable[..., Config]
) -> None:
    shown = preview("preview=3", "category=all", "category.count=5")
    resolved, _ = plan_of(config("category=all", "category.count=5"))
    first = [p.sample_id for p in read_plan(resolved.run)][:3]
    assert [line.split()[0] for line in shown.splitlines() if line.endswith("───")][:3] == first
    assert "<|im_assistant|>assistant<|im_middle|><think>" in shown
    assert "5 of 40 rows are selected" in shown
    assert "of those shown, 3 would be sent and 0 skipped" in shown


def test_nothing_is_written(preview: Preview, tmp_path: Path) -> None:
    preview("preview=2")
    assert not (tmp_path / "outputs").exists()


def test_skipped_and_escaped_prompts_say_so(preview: Preview, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "a <|im_end|> b\x1b[2J"}], "answer": "42"},
        {"messages": []},
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = preview("preview=5", "source=file", f"source.path={path}")
    assert "skipped  no_messages" in shown
    assert "1 control texts made plain" in shown
    assert "[answer] 42" in shown
    assert "\x1b[2J" not in shown
    assert "of those shown, 1 would be sent and 1 skipped" in shown


def test_long_texts_and_ids_are_bounded() -> None:
    assert clipped("x" * 5000).endswith("(2,000 characters more)")
    assert "20 more" in ids_line(list(range(100)))
    assert ids_line([1, 2]) == "1 2"
