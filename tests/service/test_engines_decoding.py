"""Decode in a moving batch: equal tokens in any batch, several architectures, memory that runs out."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny_models import STOPS, random_model, random_prompts, sampling

from service.engines.decoding import Decoder, Row, bytes_per_token
from service.errors import PrerequisiteError
from service.models.settings import Sampling

PLENTY = 1 << 40
HOW = sampling(0.9, 0.9)
MAX_TOKENS = 12


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def llama() -> Any:
    return random_model("llama")


async def draw(decoder: Decoder, prompts: Sequence[tuple[int, ...]], how: Sampling = HOW) -> list[Row]:
    """Draw a response to each prompt; five prompts arrive at a time."""
    rows = [Row(prompt, MAX_TOKENS, seed, how, frozenset(STOPS)) for seed, prompt in enumerate(prompts)]
    await asyncio.gather(*(decoder.draw(rows[first : first + 5]) for first in range(0, len(rows), 5)))
    return rows


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2"])
async def test_greedy_tokens_are_those_of_generate(name: str) -> None:
    from transformers import GenerationConfig

    model, prompts = random_model(name), random_prompts(4)
    rows = await draw(Decoder(model, 8, PLENTY), prompts, sampling(temperature=0))
    settings = GenerationConfig(
        max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=list(STOPS), pad_token_id=0
    )
    for row, prompt in zip(rows, prompts, strict=True):
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        assert row.tokens == whole[0, len(prompt) :].tolist()


def test_a_model_without_keys_and_values_of_each_token_is_refused() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    mamba = MambaForCausalLM(MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2))
    for model in (random_model("lfm2"), mamba):
        with pytest.raises(PrerequisiteError, match=f"{type(model).__name__} cannot run .* Run it with vLLM"):
            Decoder(model, 8, PLENTY)


async def test_memory_that_runs_out_is_an_error(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder(llama, 4, PLENTY)

    def never(**arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(llama, "forward", never)
    with pytest.raises(PrerequisiteError, match="do not fit into the GPU's memory"):
        await draw(decoder, [(9, 10)])


async def test_a_batch_keeps_within_its_memory(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, batches = llama.forward, []

    def count(input_ids: torch.Tensor, **arguments: Any) -> Any:
        batches.append(len(input_ids))
        return forward(input_ids=input_ids, **arguments)

    decoder = Decoder(llama, 16, 120 * bytes_per_token(llama))
    monkeypatch.setattr(llama, "forward", count)
    await draw(decoder, [(9, 10, 11)] * 30)
    assert max(batches) == 120 // (3 + MAX_TOKENS)
    (row,) = await draw(decoder, [tuple([9] * 200)])  # more than fits: drawn alone
    assert row.stop_reason
