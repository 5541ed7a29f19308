"""Random models of several architectures, large enough to write different things, small enough for a test."""

import random
from typing import Any

from service.models.settings import Sampling

VOCABULARY = 97
STOPS = (5, 6)
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": list(STOPS),
    "pad_token_id": 0,
}


def sampling(temperature: float = 1.0, top_p: float = 1.0, **more: Any) -> Sampling:
    """Return settings of which only the given ones change the distribution."""
    return Sampling(temperature=temperature, top_p=top_p, **more)


def random_model(name: str) -> Any:
    """Return llama, qwen3, gpt2, mistral (a window of 8), gemma2 (every second layer) or lfm2 (hybrid)."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    makers = {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_COMMON)),
        "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_COMMON, head_dim=8)),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=VOCABULARY,
                n_embd=32,
                n_layer=2,
                n_head=4,
                n_positions=256,
                bos_token_id=None,
                eos_token_id=list(STOPS),
            )
        ),
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_COMMON, sliding_window=8)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_COMMON, head_dim=8, sliding_window=8)),
        "lfm2": lambda: hf.Lfm2ForCausalLM(hf.Lfm2Config(**_COMMON, layer_types=["conv", "full_attention"])),
    }
    model = makers[name]()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(4)  # else it says the same whatever it reads
    return model.double().eval()


def random_prompts(count: int) -> list[tuple[int, ...]]:
    """Return prompts of several lengths, two of them of the same."""
    draw = random.Random(1)
    lengths = [draw.randrange(1, 25) for _ in range(count - 1)]
    return [
        tuple(draw.randrange(max(STOPS) + 1, VOCABULARY) for _ in range(length))
        for length in [*lengths, lengths[0]]
    ]
