"""A chat model of about a hundred thousand random weights, for tests of training without a download."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def byte_pieces() -> list[str]:
    """Return the bytes as they stand in a vocabulary."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def byte_tokenizer(
    pieces: Sequence[str], special: Sequence[str] = SPECIAL_TOKENS, template: str = CHAT_TEMPLATE
) -> Any:
    """Return a tokenizer that merges nothing; `special`, which begins with `SPECIAL_TOKENS`, is in `pieces`.

    It is of the Qwen 2 class, because transformers 5 makes that of any tokenizer beside a model of that type.
    """
    from transformers import Qwen2TokenizerFast

    tokenizer = Qwen2TokenizerFast(
        vocab={piece: number for number, piece in enumerate(pieces)},
        merges=[],
        unk_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=list(special[1:]),
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_qwen(vocabulary: int, width: int, *, seed: int = 0, **settings: Any) -> Any:
    """Return a random two-layer Qwen 2 whose special tokens come first; the same for the same seed."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    usual = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        bos_token_id=None,
        eos_token_id=SPECIAL_TOKENS.index("<|im_end|>"),
        pad_token_id=SPECIAL_TOKENS.index("<|endoftext|>"),
        **{**usual, **settings},
    )
    return Qwen2ForCausalLM(config)


def save_tiny_tokenizer(folder: Path) -> Path:
    """Save a chat tokenizer of one token a byte, so that lengths can be counted by hand."""
    byte_tokenizer([*SPECIAL_TOKENS, *byte_pieces()]).save_pretrained(folder)
    return folder


def save_tiny_model(
    folder: Path, *, seed: int = 0, heads: int = 4, context: int = 512, spread: float = 0.02
) -> Path:
    """Save a random two-layer Qwen 2 with its tokenizer; the same weights for the same seed.

    vLLM's attention on a CPU takes no heads smaller than those of `heads=2`. What is drawn depends little on
    the prompt where the weights, of standard deviation `spread`, are small.
    """
    save_tiny_tokenizer(folder)
    model = tiny_qwen(
        len(SPECIAL_TOKENS) + 256,
        64,
        seed=seed,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=context,
        initializer_range=spread,
        tie_word_embeddings=True,
    )
    model.save_pretrained(folder)
    return folder
