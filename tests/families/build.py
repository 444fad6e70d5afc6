"""Small byte-level tokenizers, and their profiles, in the shape of the model families."""

from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from runner.config import ModelMode
from runner.profile import TokenizerFacts, probe
from runner.records import TokenProfile
from runner.render import Tokenizer as OurTokenizer
from tests.families.shapes import FAMILIES, Family


def tokenizer_of(family: Family) -> OurTokenizer:
    """The tokenizer, with bytes at 0..255 (or above the special ids, where those are low)."""
    alphabet = sorted(ByteLevel.alphabet())
    taken = {*family.special.values(), *family.plain.values(), *family.words.values()}
    free = (i for i in range(100_000) if i not in taken)
    vocabulary = {letter: next(free) for letter in alphabet}
    merges: list[tuple[str, str]] = []
    for word, token in family.words.items():
        _add_word(word, token, vocabulary, merges, free)
    vocabulary |= family.special | family.plain
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens([AddedToken(t, special=False, normalized=False) for t in family.plain])
    inner.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in family.special]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=family.eos or None,
        bos_token=family.bos or None,
        chat_template=family.template,
        clean_up_tokenization_spaces=False,
    )
    return OurTokenizer(fast)


def _add_word(word, token, vocabulary, merges, free):
    """Merges that build a word letter by letter; what stands between gets ids of its own."""
    word = word.replace(" ", "Ġ")
    built = word[0]
    for position, letter in enumerate(word[1:], 1):
        pair, built = (built, letter), built + letter
        last = position == len(word) - 1
        if built not in vocabulary or last:
            vocabulary[built] = token if last else next(free)
        if pair not in merges:
            merges.append(pair)


@cache
def tokenizer_named(name: str) -> OurTokenizer:
    return tokenizer_of(FAMILIES[name])


@cache
def profile_named(name: str) -> TokenProfile:
    family = FAMILIES[name]
    return probe(
        tokenizer_named(name),
        TokenizerFacts(
            config={"vocab_size": family.vocab_size},
            generation_config={"eos_token_id": list(family.eos_ids)} if family.eos_ids else {},
        ),
        {name: ModelMode(template_kwargs=kwargs) for name, kwargs in family.modes.items()},
        family.hints,
    )
