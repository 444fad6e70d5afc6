"""Write `tiny_reasoner.gguf` beside the safetensors: the same weights in f16 for llama.cpp.

    python -m tools.tiny_reasoner.gguf_export FOLDER [FILE]     (a FILE gets f32, for comparisons)

Promises: token ids, types, merges and the chat template are those of the folder's tokenizer;
embedding rows above the last assigned id are declared as unused. bf16 to f16 loses nothing here:
weights of this size lie well inside the range of f16 and bf16 has fewer mantissa bits.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import MODEL_ARCH, GGUFWriter, TokenType
from safetensors.torch import load_file
from torch import Tensor

FILE_NAME = "tiny_reasoner.gguf"
LAYER_TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def rotary_rows(weight: Tensor, heads: int) -> Tensor:
    """Rows of a q or k projection from transformers' half-split order to llama.cpp's pairs."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def gguf_name(name: str) -> str:
    """llama.cpp's name of a transformers tensor."""
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[rest.removesuffix('.weight')]}.weight"


def _vocabulary(tokenizer: dict[str, Any], size: int) -> tuple[list[str], list[TokenType]]:
    tokens = [f"[unused_{token_id}]" for token_id in range(size)]
    types = [TokenType.UNUSED] * size
    for token, token_id in tokenizer["model"]["vocab"].items():
        tokens[token_id], types[token_id] = token, TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]], types[added["id"]] = added["content"], TokenType.CONTROL
    return tokens, types


def _add_model(writer: GGUFWriter, config: dict[str, Any], kind: gguf.LlamaFileType) -> None:
    writer.add_name("tiny_reasoner")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(kind)


def _add_tokenizer(writer: GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokens, types = _vocabulary(tokenizer, config["vocab_size"])
    merges = [
        merge if isinstance(merge, str) else " ".join(merge)
        for merge in tokenizer["model"]["merges"]
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text(encoding="utf-8"))


def export(folder: Path, path: Path | None = None) -> Path:
    """Write the GGUF of a folder and return its path: inside it in f16, or at `path` in f32."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = gguf.LlamaFileType.MOSTLY_F16 if path is None else gguf.LlamaFileType.ALL_F32
    matrices = np.float16 if path is None else np.float32
    path = path or folder / FILE_NAME
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[MODEL_ARCH.LLAMA])
    _add_model(writer, config, kind)
    _add_tokenizer(writer, folder, config)
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    for name, stored in load_file(folder / "model.safetensors").items():
        weight = stored.to(torch.float32)
        for projection, count in heads.items():
            if projection in name:
                weight = rotary_rows(weight, config[count])
        array = weight.numpy().astype(matrices if weight.ndim == 2 else np.float32)
        writer.add_tensor(gguf_name(name), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


if __name__ == "__main__":
    export(*map(Path, sys.argv[1:3]))
