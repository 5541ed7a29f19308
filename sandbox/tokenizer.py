"""The tokenizer of the policies: byte-level BPE of a few hundred tokens, in the form of Qwen's."""

from itertools import islice
from typing import Any

from sandbox.corpus import draw_examples
from sandbox.worlds import WORLDS

PAD, USER, ASSISTANT, END = SPECIAL_TOKENS = ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<|assistant|>{{ message['content'] }}<|end|>"
    "{% else %}<|user|>{{ message['content'] }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Two tokens around a question: the fewer there are, the faster the sandbox."""

VOCABULARY = 640
TEXTS = 4000


def make_tokenizer() -> Any:
    """Return the tokenizer, trained on texts of world A's corpus; it is the same for all worlds.

    It is of the class that transformers makes for any model of Qwen's architecture, whose pre-tokenizer
    gives each digit a token of its own.
    """
    from transformers import Qwen2TokenizerFast

    vocabulary, merges = _train()
    tokenizer = Qwen2TokenizerFast(
        vocab=vocabulary,
        merges=merges,
        unk_token=PAD,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _train() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return vocabulary and merges of a BPE over Qwen's pieces: a word with its blank, a digit, signs."""
    import json

    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer
    from transformers import Qwen2TokenizerFast

    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = Qwen2TokenizerFast().backend_tokenizer.pre_tokenizer
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    examples = islice(draw_examples(WORLDS["A"], seed=0), TEXTS)
    texts = (text for example in examples for text in (example.question, example.response))
    bpe.train_from_iterator(texts, trainer)
    model = json.loads(bpe.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]
