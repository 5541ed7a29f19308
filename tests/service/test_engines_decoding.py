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
Tokens = dict[tuple[int, int], tuple[list[int], str | None]]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def llama() -> Any:
    return random_model("llama")


def draw(decoder: Decoder, prompts: Sequence[tuple[int, ...]], samples: int, how: Sampling = HOW) -> Tokens:
    """Draw `samples` responses to each prompt, which arrive five at a time; return them by prompt."""
    rows = [
        Row(prompt, MAX_TOKENS, 100 * number + sample, how, frozenset(STOPS))
        for number, prompt in enumerate(prompts)
        for sample in range(samples)
    ]
    found: Tokens = {}
    while rows or decoder.open_rows:
        decoder.add(rows[:5])
        del rows[:5]
        for row in decoder.step():
            assert divmod(row.seed, 100) not in found
            found[divmod(row.seed, 100)] = (row.tokens, row.stop_reason)
    return found


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2"])
def test_greedy_tokens_are_those_of_generate(name: str) -> None:
    from transformers import GenerationConfig

    model, prompts = random_model(name), random_prompts(4)
    found = draw(Decoder(model, 8, PLENTY), prompts, 1, sampling(temperature=0))
    settings = GenerationConfig(
        max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=list(STOPS), pad_token_id=0
    )
    for number, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        assert found[number, 0][0] == whole[0, len(prompt) :].tolist()


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
        draw(decoder, [(9, 10)], 1)


def test_a_batch_keeps_within_its_memory(llama: Any) -> None:
    per_token = bytes_per_token(llama)
    decoder = Decoder(llama, 16, 120 * per_token)
    decoder.add([Row((9, 10, 11), MAX_TOKENS, seed, HOW, frozenset(STOPS)) for seed in range(30)])
    done = 0
    while done < 30:
        done += len(decoder.step())
        assert len(decoder._running) * (3 + MAX_TOKENS) <= 120
    decoder.add([Row(tuple([9] * 200), 20, 1, HOW, frozenset(STOPS))])  # more than fits: drawn alone
    while decoder.open_rows:
        done += len(decoder.step())
    assert done == 31
