"""Small tokenizers of the three shapes that matter, and the rows that real data sets hold.

`qwen_shaped`: fast, ChatML, think and tool markers as ordinary added tokens. `kimi_shaped`: slow
(Python code of its own, as the real one), all markers special. The bundled one is fast and
Kimi-shaped. All are byte-level, so any text has ids.
"""

import json
from pathlib import Path

from runner.modelfiles import ASSETS
from runner.render import Tokenizer, load_tokenizer

BUNDLED = ASSETS / "tiny_reasoner"
KIMI_SPECIAL = (
    "[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",
    "<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<think>",
    "</think>",
)  # fmt: skip
QWEN_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN_ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<b>", "\n\n")
QWEN_TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content ~ '\\n\\n' }}{% endif %}
{{- '# Tools\\n' }}{% for tool in tools %}{{ tool | tojson ~ '\\n' }}{% endfor %}
{{- 'Answer with <tool_call>{...}</tool_call>.<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '<|im_start|>user\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content and loop.last %}
{{- '<think>\\n' ~ message.reasoning_content ~ '\\n</think>\\n\\n' }}{% endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string
    else call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' ~ message.content }}
{{- '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}{% endif %}
"""
SLOW_CODE = '''\
from transformers import PreTrainedTokenizer

SPECIAL = {special!r}


class ToyTokenizer(PreTrainedTokenizer):
    """Bytes as tokens 0..255, written as two hex digits; then the special tokens."""

    vocab_files_names = {{}}
    model_input_names = ["input_ids"]

    def __init__(self, **kwargs):
        self._ids = {{"%02x" % i: i for i in range(256)}}
        self._ids.update((text, 256 + i) for i, text in enumerate(SPECIAL))
        self._texts = {{i: text for text, i in self._ids.items()}}
        kwargs.setdefault("eos_token", "[EOS]")
        kwargs.setdefault("additional_special_tokens", list(SPECIAL))
        super().__init__(**kwargs)

    @property
    def vocab_size(self):
        return len(self._ids)

    def get_vocab(self):
        return dict(self._ids)

    def _tokenize(self, text, **kwargs):
        return ["%02x" % byte for byte in text.encode("utf-8")]

    def _convert_token_to_id(self, token):
        return self._ids.get(token)

    def _convert_id_to_token(self, index):
        return self._texts.get(index)

    def convert_tokens_to_string(self, tokens):
        found = bytearray()
        for token in tokens:
            found += token.encode() if token in SPECIAL else bytes.fromhex(token)
        return found.decode("utf-8", errors="replace")

    def save_vocabulary(self, save_directory, filename_prefix=None):
        return ()
'''


def write_kimi_shaped(folder: Path) -> Path:
    """The files of a slow, Kimi-shaped tokenizer (needs trust_remote_code)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenization_toy.py").write_text(SLOW_CODE.format(special=KIMI_SPECIAL))
    (folder / "chat_template.jinja").write_text((BUNDLED / "chat_template.jinja").read_text())
    config = {
        "tokenizer_class": "ToyTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_toy.ToyTokenizer", None]},
        "eos_token": "[EOS]",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def write_qwen_shaped(folder: Path) -> Path:
    """The files of a fast, Qwen-shaped tokenizer."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Inner

    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Inner(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in QWEN_SPECIAL])
    inner.add_tokens([AddedToken(t, special=False, normalized=False) for t in QWEN_ADDED])
    inner.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(QWEN_TEMPLATE)
    return folder


def load(folder: Path) -> Tokenizer:
    """Any of them."""
    return load_tokenizer(folder, trust_remote_code=(folder / "tokenization_toy.py").is_file())
