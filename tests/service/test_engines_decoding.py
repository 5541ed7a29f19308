"""Decode in a moving batch: several architectures, memory that runs out, exact nuclei and cuts, penalties."""

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engines.choosing import Row, choose_tokens, penalize
from service.engines.decoding import Decoder, bytes_per_token
from service.errors import InputError, PrerequisiteError
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


HOW = sampling(0.9, 0.9)
MAX_TOKENS = 12


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def llama():
    return random_model("llama")


async def draw(decoder: Decoder, prompts: Sequence[tuple[int, ...]], how: Sampling = HOW) -> list[Row]:
    """Draw a response to each prompt; five prompts arrive at a time."""
    rows = [Row(prompt, MAX_TOKENS, seed, how, frozenset(STOPS)) for seed, prompt in enumerate(prompts)]
    await asyncio.gather(*(decoder.draw(rows[first : first + 5]) for first in range(0, len(rows), 5)))
    return rows


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2"])
async def test_greedy_tokens_are_those_of_generate(name):
    from transformers import GenerationConfig

    model, prompts = random_model(name), random_prompts(4)
    rows = await draw(Decoder(model, 8), prompts, sampling(temperature=0))
    settings = GenerationConfig(
        max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=list(STOPS), pad_token_id=0
    )
    for row, prompt in zip(rows, prompts, strict=True):
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        assert row.tokens == whole[0, len(prompt) :].tolist()


def test_a_model_without_keys_and_values_of_each_token_is_refused():
    from transformers import MambaConfig, MambaForCausalLM

    mamba = MambaForCausalLM(MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2))
    for model in (random_model("lfm2"), mamba):
        with pytest.raises(PrerequisiteError, match=f"{type(model).__name__} cannot run .* Run it with vLLM"):
            Decoder(model, 8)


async def test_memory_that_runs_out_is_an_error(llama, monkeypatch):
    decoder = Decoder(llama, 4)

    def never(**arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(llama, "forward", never)
    with pytest.raises(PrerequisiteError, match="do not fit into the GPU's memory"):
        await draw(decoder, [(9, 10)])


async def test_a_batch_keeps_within_its_memory(llama, monkeypatch):
    forward, batches = llama.forward, []

    def count(input_ids: torch.Tensor, **arguments: Any) -> Any:
        batches.append(len(input_ids))
        return forward(input_ids=input_ids, **arguments)

    memory = 120 * bytes_per_token(llama)
    monkeypatch.setattr("service.engines.decoding.memory_for_keys", lambda device: memory)
    decoder = Decoder(llama, 16)
    monkeypatch.setattr(llama, "forward", count)
    await draw(decoder, [(9, 10, 11)] * 30)
    assert max(batches) == 120 // (3 + MAX_TOKENS)
    (row,) = await draw(decoder, [tuple([9] * 200)])  # more than fits: drawn alone
    assert row.stop_reason


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({"top_p": 0.5 - 1e-9}, {1}),
        ({"top_p": 0.51}, {1, 2}),
        ({"top_p": 0.8 - 1e-9}, {1, 2}),
        ({"top_p": 0.81}, {0, 1, 2}),
        ({"top_p": 1.0}, {0, 1, 2}),
        ({"top_k": 2}, {1, 2}),
        ({"top_k": 7}, {0, 1, 2}),
        ({"min_p": 0.5}, {1, 2}),
        ({"min_p": 0.3}, {0, 1, 2}),
        ({"top_k": 2, "top_p": 0.6}, {1}),  # of the two tokens, the first has 5/8
        ({"temperature": 0.5, "top_p": 0.65}, {1}),  # 4/38, 25/38, 9/38
    ],
)
def test_cuts_keep_the_most_probable_tokens(how, kept):
    logits = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log().expand(50, 3)
    tokens, _ = choose_tokens(logits, np.linspace(0, 0.9999, 50).tolist(), sampling(**how))
    assert {*tokens} == kept


def test_penalties_are_those_of_vllm():
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.5]])
    row = Row((0, 1), 9, 0, sampling(top_k=3), frozenset(), tokens=[2, 2])
    assert penalize(logits, [row]) is logits
    row.how = sampling(repetition_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5)
    found = penalize(logits, [row])
    assert found.tolist() == [[1.0, -4.0, 0.5 - 0.25 - 1.0, 0.5]]
    assert logits.tolist() == [[2.0, -2.0, 1.0, 0.5]]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.sampled_from([3, 300, 6000]),
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    top_p=st.sampled_from([0.1, 0.7, 0.95, 0.999, 1.0]),
)
def test_draws_agree_with_a_plain_sort_of_the_whole_vocabulary(seed, size, spread, top_p):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(4, size)) * spread + generator.permutation(size) * 1e-6
    numbers = generator.random(4)
    expected = []
    for row, number in zip(rows, numbers, strict=True):
        probabilities = np.exp(row - row.max())
        probabilities /= probabilities.sum()
        order = np.argsort(-probabilities)
        before = np.cumsum(probabilities[order]) - probabilities[order]
        kept = np.sort(order[before < top_p])
        cumulated = np.cumsum(probabilities[kept])
        expected.append(int(kept[np.searchsorted(cumulated, number * cumulated[-1], side="right")]))
    tokens, _ = choose_tokens(torch.tensor(rows), numbers.tolist(), sampling(top_p=top_p))
    assert tokens == expected


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_logits_that_are_not_numbers_are_an_error(temperature):
    with pytest.raises(InputError, match="not finite numbers"):
        choose_tokens(torch.tensor([[0.0, math.nan]]), [0.5], sampling(temperature))


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (sampling(top_p=0.8), [0.625, 0.375]),
        (sampling(top_p=0.81), [0.5263, 0.3158, 0.1579]),
        (sampling(top_p=1e-9), [1.0]),
        (sampling(top_k=2), [0.625, 0.375]),
        (sampling(min_p=0.2), [0.5263, 0.3158, 0.1579]),
    ],
)
def test_log_probs_are_of_the_tokens_that_could_be_drawn(how, kept):
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(50, 4)
    drawn = zip(*choose_tokens(logits, np.linspace(0, 0.9999, 50).tolist(), how), strict=True)
    assert {token: round(math.exp(value), 4) for token, value in drawn} == dict(enumerate(kept))
