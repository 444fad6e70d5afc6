"""Token frequencies, coverage, and the draft vocabulary with its `.pt` files."""

import json
import pickle
import types
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.export import Options
from runner.export.coverage import coverage_table, covered, draft_vocabulary, must_have, ranked
from runner.export.torchfile import write_torch_file
from runner.ledger import read_samples
from runner.records import NOT_TOLD
from tests.export.conftest import Export
from tests.families.build import profile_named
from tests.families.shapes import FAMILIES
from tests.runs.conftest import MIXED, PROFILE, MakeRun, Spec

COUNTS = st.lists(st.integers(0, 50), min_size=8, max_size=60)


def as_counts(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(COUNTS, st.sets(st.integers(0, 7), max_size=4), st.data())
def test_a_draft_vocabulary_maps_both_ways(values: list[int], forced: set[int], data: Any) -> None:
    counts = as_counts(values)
    size = data.draw(st.integers(max(1, len(forced)), len(counts)))
    draft = draft_vocabulary(counts, size, forced)
    targets = [slot + int(draft.d2t[slot]) for slot in range(size)]
    assert targets == draft.ids.tolist() == sorted(set(targets))
    assert np.flatnonzero(draft.t2d).tolist() == targets
    assert forced <= set(targets)
    chosen = [counts[i] for i in targets if i not in forced]
    others = [counts[i] for i in range(len(counts)) if i not in set(targets)]
    assert min(chosen, default=50) >= max(others, default=0)


@given(COUNTS)
def test_coverage_grows_to_all(values: list[int]) -> None:
    counts = as_counts(values)
    shares = covered(counts, ranked(counts))
    assert shares[0] == 0
    assert (np.diff(shares) >= 0).all()
    assert shares[-1] == (1 if counts.sum() else 0)


def test_equal_frequencies_are_taken_by_id() -> None:
    assert ranked(as_counts([1, 3, 3, 1])).tolist() == [1, 2, 0, 3]


def test_padding_and_forcing_are_told() -> None:
    draft = draft_vocabulary(as_counts([9, 0, 0, 5, 0, 1]), 4, {5})
    assert draft.ids.tolist() == [0, 1, 3, 5]
    assert (draft.padded, draft.forced) == (1, 0)
    assert draft_vocabulary(as_counts([9, 0, 0, 5, 0, 1]), 2, {5}).forced == 1


@pytest.mark.parametrize("size", [1, 7])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match="--draft-size"):
        draft_vocabulary(as_counts([1] * 6), size, {1, 2})


def test_coverage_is_of_ids_chosen_over_all_categories() -> None:
    table = coverage_table({"B1": as_counts([10, 0, 0]), "B2": as_counts([0, 6, 3])}, (1, 2))
    assert table["all"] == {1: 10 / 19, 2: 16 / 19}
    assert table["B2"] == {1: 0.0, 2: 6 / 9}


@pytest.mark.parametrize("family", FAMILIES)
def test_stop_think_and_tool_ids_must_be_in_it(family: str) -> None:
    profile = profile_named(family)
    forced = must_have(profile)
    assert set(profile.stop_ids) <= forced
    if profile.think_close is not None:
        assert {profile.think_open, profile.think_close} <= forced
    if profile.tools is not None:
        assert {profile.tools.call_begin, profile.tools.call_end} - {NOT_TOLD} <= forced


def test_the_files_count_supervised_ids_only(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    run = make_run(MIXED)
    manifest = exported(run, to="vocabulary", options=Options(draft_size=600), part_bytes=60)
    folder = tmp_path / "out" / "train"
    counted = Counter(i for s in read_samples(run) if s.sample_id != "B4-3-0" for i in s.output_ids)
    told = {int(k): v for k, v in json.loads((folder / "token_freq.json").read_text()).items()}
    assert told == counted == load_pt(folder / "token_freq.pt")
    summary = manifest.summary["train"]
    assert summary["supervised_tokens"] == counted.total()
    assert summary["distinct_ids"] == len(counted)
    assert summary["padded_ids"] > 0
    assert "smaller --draft-size would do" in manifest.words[0]
    assert summary["coverage"]["all"]["8192"] == 1.0
    assert set(summary["coverage"]) == {"all", "B4", "B5"}


def test_mapping_files_agree(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    exported(make_run([Spec(0)]), to="vocabulary", options=Options(draft_size=500))
    folder = tmp_path / "out" / "train"
    mapping = load_pt(folder / "vocab_mapping.pt")
    assert mapping["d2t"].tolist() == np.load(folder / "d2t.npy").tolist()
    assert mapping["t2d"].tolist() == np.load(folder / "t2d.npy").tolist()
    assert len(mapping["d2t"]) == 500
    assert len(mapping["t2d"]) == PROFILE.vocab_padded
    assert mapping["t2d"][[*must_have(PROFILE)]].all()


def test_the_page_has_a_curve_and_a_row_for_each_category(
    make_run: MakeRun, tmp_path: Path, exported: Export
) -> None:
    exported(make_run(MIXED), to="vocabulary")
    page = (tmp_path / "out" / "train" / "coverage.html").read_text()
    assert page.count("<polyline") == page.count("<tr><td>") == 3
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_sample_with_an_id_outside_the_vocabulary_is_named(
    make_run: MakeRun, exported: Export
) -> None:
    run = make_run([Spec(0), Spec(1, changes={"output_ids": [5, 99_999]})])
    manifest = exported(run, to="vocabulary")
    assert manifest.left_out["B4"] == {"id_out_of_vocabulary: this format cannot hold it": 1}


class _Storage(types.SimpleNamespace):
    pass


def load_pt(path: Path) -> dict[Any, Any]:
    """Read a `.pt` file as torch does: the pickle of a stored zip, tensors by their raw bytes."""
    with zipfile.ZipFile(path) as archive:
        root = path.stem
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read(f"{root}/version") == b"3\n"

        class Unpickler(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                known = {
                    "torch._utils._rebuild_tensor_v2": _rebuild,
                    "torch.LongStorage": np.int64,
                    "torch.BoolStorage": np.bool_,
                    "collections.OrderedDict": dict,
                }
                return known[f"{module}.{name}"]

            def persistent_load(self, of: Any) -> Any:
                kind, dtype, key, device, size = of
                assert (kind, device) == ("storage", "cpu")
                found = np.frombuffer(archive.read(f"{root}/data/{key}"), dtype=dtype)
                assert len(found) == size
                return found

        with archive.open(f"{root}/data.pkl") as file:
            return Unpickler(file).load()


def _rebuild(storage: Any, offset: int, size: Any, stride: Any, *rest: Any) -> Any:
    assert (offset, size, stride) == (0, (len(storage),), (1,))
    return storage


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 2**40), st.integers(0, 2**62), max_size=50))
def test_a_dict_of_counts_comes_back(tmp_path_factory: Any, counts: dict[int, int]) -> None:
    path = tmp_path_factory.mktemp("pt") / "token_freq.pt"
    write_torch_file(path, counts)
    assert load_pt(path) == counts


def test_torch_itself_reads_the_files(make_run: MakeRun, tmp_path: Path, exported: Export) -> None:
    torch = pytest.importorskip("torch", reason="torch is no dependency")
    exported(make_run(MIXED), to="vocabulary")
    folder = tmp_path / "out" / "train"
    counts = torch.load(folder / "token_freq.pt", weights_only=True)
    assert counts == load_pt(folder / "token_freq.pt")
    mapping = torch.load(folder / "vocab_mapping.pt", weights_only=True)
    assert mapping["d2t"].dtype == torch.int64
    assert mapping["t2d"].dtype == torch.bool
