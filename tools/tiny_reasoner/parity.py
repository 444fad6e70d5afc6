"""The same greedy ids from transformers (fp32) and llama.cpp (f16), prompt by prompt."""

import sys
from itertools import islice
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from .data import examples
from .gguf_export import FILE_NAME
from .llamacpp import serving
from .rendering import load_tokenizer, prompt_ids

COUNT = 24
LIMIT = 250


def main(folder: Path) -> None:
    """Print how many of the prompts give the same ids."""
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(folder)
    model, report = LlamaForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    if report["missing_keys"] or report["unexpected_keys"] or report["mismatched_keys"]:
        raise SystemExit(f"keys differ: {report}")
    same = 0
    with serving(folder / FILE_NAME) as endpoint, torch.no_grad():
        for example in islice(examples(5, "heldout"), COUNT):
            prompt = prompt_ids(tokenizer, example)
            theirs = endpoint.complete(prompt, temperature=0.0, limit=LIMIT)
            generated = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=LIMIT,
                do_sample=False,
            )
            same += generated[0, len(prompt) :].tolist() == theirs
    print(f"{same} of {COUNT} greedy completions have the same ids")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
