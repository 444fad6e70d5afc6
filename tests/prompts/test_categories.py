"""Every category of conf/ on rows in the schema of its real data set, through `datasets` itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from runner.config import Config
from runner.errors import ConfigError
from runner.ledger import read_plan
from runner.plan import PromptReader
from runner.plansummary import PlanSummary
from runner.prompts.parts import open_parts
from runner.prompts.shape import RowFault
from runner.render import Tokenizer
from runner.resolve import Resolved
from tests.prompts import rows

CATEGORIES = sorted(rows.BY_CATEGORY)
PROMPTS = {"B1": 2, "B2": 6, "B3": 4, "B4": 5, "B5": 4, "B6": 3, "B7": 3, "B8": 6}
"""Prompts that the rows of each category give, by the policy in its hub block."""
ROLES = {
    "B1": ["system", "user", "assistant", "tool", "assistant", "user"],
    "B6": ["user", "assistant", "user"],
    "B8": ["system", "user"],
}
Write = Callable[[Path, list[dict[str, Any]]], None]


def as_json_lines(folder: Path, found: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in found)
    (folder / "train.jsonl").write_text(data)


def as_json_array(folder: Path, found: list[dict[str, Any]]) -> None:
    (folder / "train.json").write_text(json.dumps(found))


def as_parquet(folder: Path, found: list[dict[str, Any]]) -> None:
    datasets.Dataset.from_list(found).to_parquet(folder / "train-00000-of-00001.parquet")


def local_set(folder: Path, category: str, write: Write, split: str, config: str | None) -> Path:
    """A folder that `load_dataset` takes for the data set: files, and a card naming its splits."""
    folder.mkdir()
    write(folder, rows.BY_CATEGORY[category])
    (file,) = folder.iterdir()
    card = f"configs:\n- config_name: {config or 'default'}\n  data_files:\n"
    card += f"  - split: {split}\n    path: {file.name}\n"
    (folder / "README.md").write_text(f"---\n{card}---\n")
    return folder


def local(config: Callable[..., Config], tmp_path: Path, category: str, write: Write) -> list[str]:
    """Overrides that put a local folder in the place of the hub's data set."""
    hub = config(f"category={category}", "source=hub").category.parts[category].hub
    assert hub is not None
    folder = local_set(tmp_path / category, category, write, hub.split, hub.config)
    size = len(rows.BY_CATEGORY[category])
    limit = [f"category.parts.{category}.hub.first_rows={size}"] if hub.streaming else []
    return ["source=hub", f"category.parts.{category}.hub.id={folder}", *limit]


@pytest.mark.parametrize("write", [as_json_lines, as_json_array, as_parquet])
@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_reads_its_data_set_by_load_dataset(
    category: str, write: Write, config: Callable[..., Config], tmp_path: Path
) -> None:
    chosen = config(f"category={category}", *local(config, tmp_path, category, write))
    (part,) = open_parts(chosen).values()
    found = list(part.sources[0].read(part.rows[0], part.adaptation.read_columns))
    prompts, skipped = [], 0
    for _, row in found:
        try:
            prompts += list(part.adaptation.prompts(row))
        except RowFault:
            skipped += 1
    assert len(prompts) == PROMPTS[category]
    assert skipped == (category == "B7")
    roles = [m["role"] for m in prompts[0].messages]
    assert roles == ROLES.get(category, ["user"])


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_renders_for_every_family(
    category: str, config: Callable[..., Config], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    chosen = config(f"category={category}", *local(config, tmp_path, category, as_json_lines))
    (part,) = open_parts(chosen).values()
    tail = tokenizer.render([{"role": "user", "content": "x"}], [], {})[-1]
    for _, row in part.sources[0].read(part.rows[0]):
        if row.get("id") == "piece_9":
            continue
        for prompt in part.adaptation.prompts(row):
            ids = tokenizer.render(prompt.messages, prompt.tools, {})
            text = tokenizer.decode(ids)
            assert ids[-1] == tail
            assert prompt.messages[-1]["content"] in text
            assert all(tool["function"]["name"] in text for tool in prompt.tools)


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_folder_saved_by_datasets_gives_the_same_prompts(
    category: str,
    config: Callable[..., Config],
    planned: Callable[..., tuple[Resolved, PlanSummary]],
    tmp_path: Path,
) -> None:
    """source=file with the hub block's own adapter and columns, detected or named."""
    found = rows.BY_CATEGORY[category]
    datasets.Dataset.from_list(found).save_to_disk(str(tmp_path / "saved"))
    columns = ["source.columns.prompt=input"] if category == "B2" else []
    by_file, _ = planned(
        f"category={category}", "source=file", f"source.path={tmp_path}/saved", *columns
    )
    prompts = [
        PromptReader(by_file.run).read(p.prompt) for p in read_plan(by_file.run) if not p.skip
    ]
    assert len(prompts) == len(found) - (category == "B7")


def test_the_hub_block_of_every_category_is_whole(config: Callable[..., Config]) -> None:
    parts = config("category=all", "source=hub").category.parts
    assert sorted(parts) == CATEGORIES
    for name, part in parts.items():
        assert part.hub is not None, name
        assert part.hub.licence, name
        assert part.hub.count, name
        assert part.hub.revision is None, name
        assert part.expected.prompt_tokens, name


def test_counts_of_the_hub_blocks_give_way(config: Callable[..., Config]) -> None:
    def counts(*overrides: str) -> set[int | None]:
        chosen = config("category=all", *overrides)
        from runner.prompts.parts import _counts

        return set(_counts(chosen).values())

    assert counts("source=hub") == {11_000, 450}
    assert counts("source=hub", "category.count=20") == {20}
    assert counts() == {None}


def test_all_eight_stream_and_plan_in_one_run(
    planned: Callable[..., tuple[Resolved, PlanSummary]],
    config: Callable[..., Config],
    tmp_path: Path,
) -> None:
    overrides = ["category=all"]
    for category in CATEGORIES:
        overrides += local(config, tmp_path, category, as_parquet)[1:]
    resolved, summary = planned("source=hub", *overrides)
    sent = {name: part.prompts + part.skipped.get("over_context", 0)
            for name, part in summary.parts.items()}  # fmt: skip
    assert sent == PROMPTS
    assert resolved.identity["prompts"]["B2"]["columns"] == {"id": "id", "prompt": "input"}


def test_a_wrong_column_of_a_data_set_lists_those_that_exist(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    overrides = local(config, tmp_path, "B3", as_parquet)
    column = "category.parts.B3.hub.columns.instruction=question"
    (part,) = open_parts(config("category=B3", *overrides, column)).values()
    with pytest.raises(ConfigError, match="question") as caught:
        _ = part.adaptation
    assert caught.value.allowed == "instruction, response"
    assert caught.value.where == "category.parts.B3.hub.columns.instruction"
