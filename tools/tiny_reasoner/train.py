"""Train the model on one CPU core and save it as bf16 safetensors with its configs.

    python -m tiny_reasoner.train OUT --minutes 40

OUT must hold the tokenizer. The learning rate follows the clock: warm, flat, then falling to zero
over the last part of the minutes. A running average of the weights is saved every few minutes, so
an early one is usable.
Only completions are targets; the padded rows of the vocabulary never are.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .data import examples
from .model import Shape, TinyLlama, hf_config
from .optimizer import Muon
from .rendering import load_tokenizer, pair_ids

POOL = 600
BATCH_TOKENS = 2_048
MUON_RATE = 0.015
ADAM_RATE = 2e-3
WARM_STEPS = 30
FALL_FROM = 0.3
IGNORED = -100


def rate_factor(step: int, progress: float) -> float:
    """Warm-up by steps, then flat, then linear to zero by the clock."""
    return min(1.0, (step + 1) / WARM_STEPS, max(0.0, (1 - progress) / (1 - FALL_FROM)))


def batches(tokenizer: PreTrainedTokenizerBase, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (ids, targets), of similar lengths within a batch, padded on the right."""
    stream, rng = examples(seed, "train"), random.Random(seed)
    while True:
        pool = [pair_ids(tokenizer, example) for example in islice(stream, POOL)]
        pool = [pair for pair in pool if sum(map(len, pair)) <= BATCH_TOKENS]
        pool.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        groups: list[list[tuple[list[int], list[int]]]] = [[]]
        for pair in pool:
            if (len(groups[-1]) + 1) * sum(map(len, pair)) > BATCH_TOKENS:
                groups.append([])
            groups[-1].append(pair)
        rng.shuffle(groups)
        yield from (_tensors(group, tokenizer.pad_token_id) for group in groups)


def _tensors(group: list[tuple[list[int], list[int]]], pad_id: int) -> tuple[Tensor, Tensor]:
    length = max(len(prompt) + len(completion) for prompt, completion in group) - 1
    ids = torch.full((len(group), length), pad_id)
    targets = torch.full((len(group), length), IGNORED)
    for row, (prompt, completion) in enumerate(group):
        whole = torch.tensor([*prompt, *completion])
        ids[row, : len(whole) - 1] = whole[:-1]
        targets[row, len(prompt) - 1 : len(whole) - 1] = whole[len(prompt) :]
    return ids, targets


def save_model(weights: dict[str, Tensor], shape: Shape, folder: Path) -> None:
    """Write model.safetensors (bf16), config.json and generation_config.json."""
    tokenizer = load_tokenizer(folder)
    bf16 = {name: value.to(torch.bfloat16).contiguous() for name, value in weights.items()}
    save_file(bf16, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config = hf_config(
        shape, tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id
    )
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("[EOS]")],
        "pad_token_id": tokenizer.pad_token_id,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def train(
    folder: Path, *, minutes: float, seed: int, save_every_s: float, start: Path | None
) -> None:
    """Train for the given minutes and leave the averaged weights in `folder`."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    shape = Shape()
    model = TinyLlama(shape)
    if start is not None:
        model.load_state_dict(load_file(start / "model.safetensors"))
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    muon = Muon(matrices, lr=MUON_RATE)
    adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    started = saved = time.monotonic()
    tokens, recent = 0, 0.0
    tokenizer = load_tokenizer(folder)
    for step, (ids, targets) in enumerate(batches(tokenizer, seed)):
        progress = (time.monotonic() - started) / (60 * minutes)
        if progress >= 1:
            break
        factor = rate_factor(step, progress)
        muon.param_groups[0]["lr"] = MUON_RATE * factor
        adam.param_groups[0]["lr"] = ADAM_RATE * factor
        loss = model.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        muon.step()
        adam.step()
        model.zero_grad(set_to_none=True)
        keep = min(0.985, step / (step + 10))
        for name, value in model.state_dict().items():
            average[name].lerp_(value, 1 - keep)
        tokens += ids.numel()
        recent = 0.95 * recent + 0.05 * loss.item() if step else loss.item()
        if step % 20 == 0:
            speed = tokens / (time.monotonic() - started)
            print(f"{step} {progress:.3f} loss {recent:.4f} {tokens} {speed:.0f}/s", flush=True)
        if time.monotonic() - saved > save_every_s:
            save_model(average, shape, folder)
            saved = time.monotonic()
    save_model(average, shape, folder)
    print(f"done: {step} steps, {tokens} tokens", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every-s", type=float, default=150)
    parser.add_argument("--start", type=Path, help="a saved folder whose weights to begin with")
    options = parser.parse_args()
    train(
        options.folder,
        minutes=options.minutes,
        seed=options.seed,
        save_every_s=options.save_every_s,
        start=options.start,
    )


if __name__ == "__main__":
    main()
