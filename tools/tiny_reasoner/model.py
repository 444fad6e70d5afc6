"""The Llama architecture in plain torch, with the tensor names of transformers' LlamaForCausalLM.

Promise: `state_dict()` saved as safetensors beside `hf_config()` loads there with no key missing
or left over, and computes the same function (checked by `parity`). No cache: training only.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .tokenizer import CONTEXT_LENGTH, PADDED_SIZE


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. head_dim is 64 because GPU attention kernels like it."""

    vocabulary: int = PADDED_SIZE
    hidden: int = 192
    layers: int = 4
    heads: int = 4
    head_dim: int = 64
    feed_forward: int = 448
    context: int = CONTEXT_LENGTH
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-5


class RMSNorm(nn.Module):
    """Root mean square norm with a learned scale."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def rotary_tables(length: int, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [length, head_dim], in the half-split layout of transformers."""
    exponents = torch.arange(0, shape.head_dim, 2).float() / shape.head_dim
    angles = torch.outer(torch.arange(length).float(), shape.rope_base**-exponents)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class Attention(nn.Module):
    """Causal self-attention. Padding must be on the right, where causality hides it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.head_dim = shape.heads, shape.head_dim
        width = shape.heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            projection(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.norm_epsilon)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    """Embedding, layers and final norm: hidden states, not logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.norm_epsilon)

    def forward(self, ids: Tensor) -> Tensor:
        cos, sin = rotary_tables(ids.shape[1], self.shape)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class TinyLlama(nn.Module):
    """The language model; its head is the embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Backbone(shape)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy where `targets` is not -100; logits are made only there."""
        hidden = self.model(ids)
        wanted = targets != -100
        logits = hidden[wanted] @ self.model.embed_tokens.weight.T
        return functional.cross_entropy(logits, targets[wanted])


def hf_config(shape: Shape, eos_id: int, bos_id: int, pad_id: int) -> dict[str, Any]:
    """`config.json` of the saved model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.context,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "rope_theta": shape.rope_base,
        "rms_norm_eps": shape.norm_epsilon,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "eos_token_id": eos_id,
        "bos_token_id": bos_id,
        "pad_token_id": pad_id,
    }
