"""The loaders of real trainers read what is exported. They bring torch, so they are no dependency:

    pip install torch httpx openai && pip install --no-deps speculators specforge hs-connectors

Without them these tests are skipped; `test_pretokenized` holds their documented rules.
"""

import json
from pathlib import Path

import pytest

from runner.export import Options
from runner.ledger import read_samples
from tests.export.conftest import Export, lines
from tests.runs.conftest import MIXED, MakeRun


def wanted(run) -> dict[str, tuple[list[int], list[int]]]:
    return {
        s.sample_id: (
            s.input_ids + s.output_ids,
            [0] * len(s.input_ids) + [1] * len(s.output_ids),
        )
        for s in read_samples(run)
        if s.sample_id != "B4-3-0"
    }


def test_specforge_takes_the_rows_as_they_are(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    pytest.importorskip("torch")
    builder = pytest.importorskip("specforge.data.prompt_builder")
    run = make_run(MIXED)
    exported(run)
    (file,) = (tmp_path / "out" / "train").iterdir()
    tasks = builder.prepare_prompt_tasks(
        file,
        None,
        chat_template=None,
        max_length=2048,
        is_preformatted=False,
        train_only_last_turn=False,
        cache_dir=None,
        cache_key=None,
        num_proc=None,
    )
    found = [(t["payload"]["input_ids"], t["payload"]["loss_mask"]) for t in tasks]
    assert found == list(wanted(run).values())


@pytest.mark.filterwarnings("ignore")
def test_speculators_takes_the_rows_as_they_are(
    make_run: MakeRun, tmp_path: Path, exported: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    preprocessing = pytest.importorskip("speculators.data_generation.preprocessing")
    run = make_run(MIXED)
    exported(run, part_bytes=1)
    rows, _ = preprocessing.load_raw_dataset(str(tmp_path / "out" / "train"))
    batch = preprocessing._preprocess_batch(rows[:], False, None, 8192)
    found = zip(
        [list(map(int, ids)) for ids in batch["input_ids"]],
        [list(map(int, mask)) for mask in batch["loss_mask"]],
        strict=True,
    )
    assert list(found) == list(wanted(run).values())


@pytest.mark.filterwarnings("ignore")
def test_speculators_makes_the_same_draft_vocabulary_of_our_frequencies(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    torch = pytest.importorskip("torch")
    mapping = pytest.importorskip("speculators.train.vocab_mapping")
    exported(make_run(MIXED), to="vocabulary", options=Options(draft_size=60))
    folder = tmp_path / "out" / "train"
    counts = torch.load(folder / "token_freq.pt", weights_only=True)
    told = json.loads((folder / "token_freq.json").read_text())
    assert counts == {int(token): count for token, count in told.items()}
    _, t2d = mapping.build_vocab_mappings_from_distribution(counts, 60, 1280)
    ours = torch.load(folder / "vocab_mapping.pt", weights_only=True)
    assert ours["t2d"].shape == t2d.shape
    assert ours["d2t"].dtype == torch.int64
    same = int((ours["t2d"] & t2d).sum())
    assert same >= 60 - 8, "only ids that were forced in may differ"


def test_specforge_reads_messages_and_their_tools(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    pytest.importorskip("torch")
    parse = pytest.importorskip("specforge.data.parse")
    exported(make_run(MIXED), to="messages", options=Options(key="conversations"))
    for row in lines(tmp_path / "out" / "train"):
        parser = object.__new__(parse.GeneralParser)
        parser.standard_keys = {"role", "content", "tool_calls", "reasoning_content"}
        for turn in row["conversations"]:
            assert parser._sanitize_message(parser._normalize_message(turn)) == turn
        assert json.loads(row["tools"]) == []
