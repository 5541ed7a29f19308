"""Decode in a moving batch: equal tokens in any batch, several architectures, memory that runs out."""

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


def draw(decoder: Decoder, prompts: Sequence[tuple[int, ...]], how: Sampling = HOW) -> list[Row]:
    """Draw a response to each prompt; five prompts arrive at a time."""
    rows = [Row(prompt, MAX_TOKENS, seed, how, frozenset(STOPS)) for seed, prompt in enumerate(prompts)]
    arriving = rows.copy()
    while arriving or decoder.open_rows:
        decoder.add(arriving[:5])
        del arriving[:5]
        decoder.step()
    return rows


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2"])
def test_greedy_tokens_are_those_of_generate(name: str) -> None:
    from transformers import GenerationConfig

    model, prompts = random_model(name), random_prompts(4)
    rows = draw(Decoder(model, 8, PLENTY), prompts, sampling(temperature=0))
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


def test_memory_that_runs_out_is_an_error(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder(llama, 4, PLENTY)

    def never(**arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(llama, "forward", never)
    with pytest.raises(PrerequisiteError, match="do not fit into the GPU's memory"):
        draw(decoder, [(9, 10)])


def test_a_batch_keeps_within_its_memory(llama: Any) -> None:
    per_token = bytes_per_token(llama)
    decoder = Decoder(llama, 16, 120 * per_token)
    rows = [Row((9, 10, 11), MAX_TOKENS, seed, HOW, frozenset(STOPS)) for seed in range(30)]
    decoder.add(rows)
    while decoder.open_rows:
        decoder.step()
        assert len(decoder._running) * (3 + MAX_TOKENS) <= 120
    rows.append(Row(tuple([9] * 200), 20, 1, HOW, frozenset(STOPS)))  # more than fits: drawn alone
    decoder.add(rows[-1:])
    while decoder.open_rows:
        decoder.step()
    assert all(row.stop_reason for row in rows)
