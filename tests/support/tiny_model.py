"""A chat model of about a hundred thousand random weights, for tests of training without a download."""

from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def save_tiny_tokenizer(folder: Path) -> Path:
    """Save a tokenizer with a chat template and one token a byte, so that its lengths can be counted by hand.

    It is of the Qwen 2 class, because transformers 5 makes that of any tokenizer beside a model of that type.
    """
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2TokenizerFast

    pieces = [*SPECIAL_TOKENS, *sorted(ByteLevel.alphabet())]
    tokenizer = Qwen2TokenizerFast(
        vocab={piece: number for number, piece in enumerate(pieces)},
        merges=[],
        unk_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_model(
    folder: Path, *, seed: int = 0, heads: int = 4, context: int = 512, spread: float = 0.02
) -> Path:
    """Save a random two-layer Qwen 2 with its tokenizer; the same weights for the same seed.

    vLLM's attention on a CPU takes no heads smaller than those of `heads=2`. What is drawn depends little on
    the prompt where the weights, of standard deviation `spread`, are small.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    save_tiny_tokenizer(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(SPECIAL_TOKENS) + 256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=context,
        initializer_range=spread,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=SPECIAL_TOKENS.index("<|im_end|>"),
        pad_token_id=SPECIAL_TOKENS.index("<|endoftext|>"),
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
