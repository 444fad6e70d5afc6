"""The bundled model's files agree with each other, and the bundled prompts fit it."""

import hashlib
import importlib
import json
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

ASSETS = Path(__file__).resolve().parents[1] / "runner" / "assets"
MODEL = ASSETS / "tiny_reasoner"
TOOLS_DIR = ASSETS.parents[1] / "tools"
OWN_PROMPTS = ["B1", "B4", "B5"]
SPECIAL_TOKENS = [
    "[PAD]",
    "[BOS]",
    "[EOS]",
    "<|im_system|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_middle|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
CONTROL, NORMAL, UNUSED = 3, 1, 5


def _json(name: str) -> dict[str, Any]:
    return dict(json.loads((MODEL / name).read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL, local_files_only=True)


def _rendered(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    return str(
        tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **options
        )
    )


def _ids(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> list[int]:
    encoded = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, **options
    )
    return list(encoded["input_ids"])


# --- files -------------------------------------------------------------------------------------


def test_folder_is_complete_and_small() -> None:
    names = {
        "README.md",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tiny_reasoner.gguf",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    files = [path for path in MODEL.iterdir() if path.is_file()]
    assert {path.name for path in files} == names
    assert sum(path.stat().st_size for path in files) <= 12 * 1024 * 1024


def test_safetensors_holds_the_configured_shapes() -> None:
    config = _json("config.json")
    with (MODEL / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    assert header["model.embed_tokens.weight"]["shape"] == [
        config["vocab_size"],
        config["hidden_size"],
    ]
    width = config["num_attention_heads"] * config["head_dim"]
    for layer in range(config["num_hidden_layers"]):
        query = header[f"model.layers.{layer}.self_attn.q_proj.weight"]
        assert query["shape"] == [width, config["hidden_size"]]
    assert "lm_head.weight" not in header
    assert config["tie_word_embeddings"] is True


# --- tokenizer ---------------------------------------------------------------------------------


def test_special_tokens_are_the_last_assigned_ids(tokenizer: Any) -> None:
    config = _json("config.json")
    ids = tokenizer.convert_tokens_to_ids(SPECIAL_TOKENS)
    assert ids == list(range(len(tokenizer) - len(SPECIAL_TOKENS), len(tokenizer)))
    assert all(
        tokenizer.encode(t, add_special_tokens=False) == [i]
        for t, i in zip(SPECIAL_TOKENS, ids, strict=True)
    )
    assert len(tokenizer) < config["vocab_size"]
    assert config["vocab_size"] % 64 == 0


def test_configs_name_the_tokenizer_s_ids(tokenizer: Any) -> None:
    config, generation = _json("config.json"), _json("generation_config.json")
    pad, bos, eos, end = tokenizer.convert_tokens_to_ids(["[PAD]", "[BOS]", "[EOS]", "<|im_end|>"])
    assert (config["pad_token_id"], config["bos_token_id"], config["eos_token_id"]) == (
        pad,
        bos,
        end,
    )
    assert generation["pad_token_id"] == pad
    assert generation["bos_token_id"] == bos
    assert generation["eos_token_id"] == [end, eos]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (pad, end)
    assert config["max_position_embeddings"] == tokenizer.model_max_length == 2048


def test_tokenizer_is_fast(tokenizer: Any) -> None:
    assert tokenizer.is_fast


@settings(max_examples=200)
@given(text=st.text(max_size=60))
def test_any_text_round_trips(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_digits_are_single_tokens(tokenizer: Any) -> None:
    assert tokenizer.tokenize("20479") == ["2", "0", "4", "7", "9"]


# --- template ----------------------------------------------------------------------------------


def test_thinking_tail(tokenizer: Any) -> None:
    ids = _ids(tokenizer, [{"role": "user", "content": "hi"}])
    tail = ["<|im_assistant|>", "assistant", "<|im_middle|>", "<think>"]
    assert tokenizer.convert_ids_to_tokens(ids[-4:]) == tail


def test_instant_tail(tokenizer: Any) -> None:
    thinking = _ids(tokenizer, [{"role": "user", "content": "hi"}])
    instant = _ids(tokenizer, [{"role": "user", "content": "hi"}], thinking=False)
    assert instant == [*thinking, tokenizer.convert_tokens_to_ids("</think>")]


def test_thinking_true_is_the_default(tokenizer: Any) -> None:
    message = [{"role": "user", "content": "hi"}]
    assert _ids(tokenizer, message) == _ids(tokenizer, message, thinking=True)


def test_text_and_ids_agree(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "What is 4+5?"}]
    text = _rendered(tokenizer, messages, tools=TOOLS)
    assert tokenizer.encode(text, add_special_tokens=False) == _ids(
        tokenizer, messages, tools=TOOLS
    )


def test_tools_are_declared_first_in_compact_json(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    declared = json.dumps(TOOLS, separators=(",", ":"))
    assert _rendered(tokenizer, messages, tools=TOOLS) == (
        f"<|im_system|>tool_declare<|im_middle|>{declared}<|im_end|>"
        "<|im_system|>system<|im_middle|>s<|im_end|>"
        "<|im_user|>user<|im_middle|>q<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think>"
    )


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def test_tool_loop_keeps_reasoning_and_numbers_calls(tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "R",
            "tool_calls": [
                _call("call_x", "f", '{"a": 1}'),
                _call("functions.g:1", "g", {"b": "é"}),
            ],
        },
        {"role": "tool", "tool_call_id": "call_x", "content": "one"},
        {"role": "tool", "tool_call_id": "functions.g:1", "name": "g", "content": "two"},
    ]
    assert _rendered(tokenizer, messages) == (
        "<|im_user|>user<|im_middle|>q<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think>R</think><|tool_calls_section_begin|>"
        '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
        '<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"b": "é"}<|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>"
        "<|im_system|>f<|im_middle|>## Return of functions.f:0\none<|im_end|>"
        "<|im_system|>g<|im_middle|>## Return of functions.g:1\ntwo<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think>"
    )


def test_a_call_id_used_twice_means_the_latest_call(tokenizer: Any) -> None:
    turn = [
        {"role": "assistant", "content": "", "tool_calls": [_call("x", "f", "{}")]},
        {"role": "tool", "tool_call_id": "x", "content": "r"},
    ]
    text = _rendered(tokenizer, [{"role": "user", "content": "q"}, *turn, *turn])
    assert text.index("## Return of functions.f:0") < text.index("## Return of functions.f:1")


def test_reasoning_before_the_last_answer_is_dropped(tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "old", "reasoning_content": "R"},
        {"role": "user", "content": "r"},
    ]
    dropped = "<|im_assistant|>assistant<|im_middle|><think></think>old<|im_end|>"
    kept = "<|im_assistant|>assistant<|im_middle|><think>R</think>old<|im_end|>"
    assert dropped in _rendered(tokenizer, messages)
    assert kept in _rendered(tokenizer, messages, preserve_thinking=True)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_content_may_be_null_or_parts(tokenizer: Any, content: Any, shown: str) -> None:
    text = _rendered(tokenizer, [{"role": "user", "content": content}])
    assert text.startswith(f"<|im_user|>user<|im_middle|>{shown}<|im_end|>")


def test_no_bos_is_added(tokenizer: Any) -> None:
    assert tokenizer.encode("x") == tokenizer.encode("x", add_special_tokens=False)
    assert "[BOS]" not in _rendered(tokenizer, [{"role": "user", "content": "hi"}])


# --- GGUF --------------------------------------------------------------------------------------

# struct codes of GGUF's value types; 8 is a string, 9 an array.
SCALARS = dict(zip([0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12], "BbHhIif?Qqd", strict=True))


def _scalar(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))[0]


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return file.read(_scalar(file, "Q")).decode()
    if kind == 9:
        inner, count = _scalar(file, "I"), _scalar(file, "Q")
        return [_value(file, inner) for _ in range(count)]
    return _scalar(file, SCALARS[kind])


@pytest.fixture(scope="module")
def gguf() -> dict[str, Any]:
    with (MODEL / "tiny_reasoner.gguf").open("rb") as file:
        assert file.read(4) == b"GGUF"
        _version, _tensors, count = struct.unpack("<IQQ", file.read(20))
        pairs = ((_value(file, 8), _value(file, _scalar(file, "I"))) for _ in range(count))
        return dict(pairs)


def test_gguf_has_the_shape_of_the_config(gguf: dict[str, Any]) -> None:
    config = _json("config.json")
    pairs = {
        "block_count": "num_hidden_layers",
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.key_length": "head_dim",
        "attention.value_length": "head_dim",
        "rope.dimension_count": "head_dim",
        "vocab_size": "vocab_size",
    }
    assert gguf["general.architecture"] == "llama"
    assert {key: gguf[f"llama.{key}"] for key in pairs} == {
        key: config[name] for key, name in pairs.items()
    }
    assert gguf["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(config["rms_norm_eps"])
    assert gguf["llama.rope.freq_base"] == config["rope_theta"]


def test_gguf_has_the_tokenizer(gguf: dict[str, Any]) -> None:
    tokenizer, config = _json("tokenizer.json"), _json("config.json")
    added = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **added}
    tokens, types = gguf["tokenizer.ggml.tokens"], gguf["tokenizer.ggml.token_type"]
    assert len(tokens) == len(types) == config["vocab_size"]
    assert all(tokens[token_id] == token for token, token_id in ids.items())
    expected = [
        UNUSED if i >= len(ids) else CONTROL if i in added.values() else NORMAL
        for i in range(len(tokens))
    ]
    assert types == expected
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    assert gguf["tokenizer.ggml.merges"] == merges
    assert gguf["tokenizer.ggml.eos_token_id"] == config["eos_token_id"]
    assert gguf["tokenizer.ggml.bos_token_id"] == config["bos_token_id"]
    assert gguf["tokenizer.ggml.padding_token_id"] == config["pad_token_id"]
    assert gguf["tokenizer.ggml.add_bos_token"] is False


def test_gguf_has_the_template(gguf: dict[str, Any]) -> None:
    template = (MODEL / "chat_template.jinja").read_text(encoding="utf-8")
    assert gguf["tokenizer.chat_template"] == template


# --- bundled prompts ---------------------------------------------------------------------------


def _rows(category: str) -> Iterator[dict[str, Any]]:
    lines = (ASSETS / "prompts" / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
    return (json.loads(line) for line in lines)


@pytest.mark.parametrize("category", OWN_PROMPTS)
def test_prompts_are_forty_different_rows(category: str) -> None:
    rows = list(_rows(category))
    keys = {hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest() for row in rows}
    assert len(rows) == len(keys) == 40
    for row in rows:
        assert set(row) <= {"messages", "tools", "answer"}
        assert row["messages"][-1]["role"] in ("user", "tool")
        assert all(tool["type"] == "function" for tool in row.get("tools", []))
        assert ("tools" in row) == (category == "B1")
        assert ("answer" in row) == (category != "B1")


@pytest.mark.parametrize("category", [f"B{number}" for number in range(1, 9)])
def test_prompts_leave_room_for_the_answer(tokenizer: Any, category: str) -> None:
    if not (ASSETS / "prompts" / f"{category}.jsonl").exists():
        pytest.skip("not bundled")
    lengths = [
        len(_ids(tokenizer, row["messages"], tools=row.get("tools"))) for row in _rows(category)
    ]
    assert max(lengths) <= 900


@pytest.mark.skipif(not TOOLS_DIR.is_dir(), reason="the generator is not in this distribution")
@pytest.mark.parametrize("category", OWN_PROMPTS)
def test_prompts_are_what_the_generator_holds_out(
    monkeypatch: pytest.MonkeyPatch, category: str
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS_DIR))
    bundled = importlib.import_module("tiny_reasoner.bundled_prompts")
    data = importlib.import_module("tiny_reasoner.data")
    assert list(_rows(category)) == bundled.rows(category)
    generated = [
        example
        for kind, count in bundled.GENERATED[category].items()
        for example in islice(data.examples_of(kind, bundled.SEED, "heldout"), count)
    ]
    assert len(generated) == 24
    assert {data.split_of(example) for example in generated} == {"heldout"}
