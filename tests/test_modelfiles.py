"""A model folder is known by what is in it."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.modelfiles import BLOCK_BYTES, BLOCKS, fingerprint, weights_digest


def model(folder: Path, weights: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_moved_folder_is_the_same_model(tmp_path: Path) -> None:
    here = model(tmp_path / "here", b"w" * 1000)
    there = shutil.copytree(here, tmp_path / "there")
    (there / "README.md").write_text("what is said about it does not count")
    assert fingerprint(here) == fingerprint(there)
    assert weights_digest(here) == weights_digest(there)


def test_weights_that_were_trained_on_are_other_weights_of_the_same_model(tmp_path: Path) -> None:
    size = 3 * BLOCKS * BLOCK_BYTES
    before, after = model(tmp_path / "a", b"\x01" * size), model(tmp_path / "b", b"\x02" * size)
    assert fingerprint(before) == fingerprint(after)
    assert weights_digest(before) != weights_digest(after)


@pytest.mark.parametrize("name", ["model-2.safetensors", "model.gguf", "pytorch_model.bin"])
def test_another_file_of_weights_counts(tmp_path: Path, name: str) -> None:
    folder = model(tmp_path / "a", b"w")
    before = weights_digest(folder)
    (folder / name).write_bytes(b"w")
    assert weights_digest(folder) != before


@settings(max_examples=40)
@given(
    data=st.data(), size=st.sampled_from([1, BLOCK_BYTES, BLOCK_BYTES + 1, BLOCKS * BLOCK_BYTES])
)
def test_one_changed_byte_of_a_small_file_is_seen(
    data: st.DataObject, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = model(tmp_path_factory.mktemp("m") / "a", bytes(size))
    before = weights_digest(folder)
    at = data.draw(st.integers(0, size - 1))
    (folder / "model.safetensors").write_bytes(bytes(at) + b"\x01" + bytes(size - at - 1))
    assert weights_digest(folder) != before
