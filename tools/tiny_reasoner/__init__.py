"""Everything that makes `runner/assets/tiny_reasoner`, the bundled real model.

Run from `tools/` with the environment of `requirements.txt` (not the product's own):

    python -m tiny_reasoner.bundled_prompts     # B1, B4, B5 of runner/assets/prompts
    python -m tiny_reasoner.tokenizer OUT       # tokenizer and chat template
    python -m tiny_reasoner.train OUT           # weights, one CPU core, forty minutes
    python -m tiny_reasoner.gguf_export OUT     # tiny_reasoner.gguf beside the safetensors
    python -m tiny_reasoner.evaluate OUT        # held-out rates through llama.cpp
    python -m tiny_reasoner.parity OUT          # same greedy ids in transformers and llama.cpp

The parts: `arithmetic` (worked steps), `reasoning`, `tool_catalogue`, `tool_tasks`, `conversation`
(task kinds), `data` (the mix and the split), `tokenizer`, `model`, `train`, `gguf_export`,
`bundled_prompts`, `evaluate`, `parity`.

Promise: text is deterministic by seed. Weights are not bit-equal between machines (floating-point
sums differ), so the shipped files are the record and this code says how they came about.
"""
