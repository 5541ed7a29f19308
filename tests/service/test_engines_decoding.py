"""Decode in a moving batch: equal tokens in any batch, several architectures, memory that runs out."""

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny_models import STOPS, random_model, random_prompts, sampling

from service.engines.decoding import Decoder, Row
from service.engines.loading import _share_keys_of_groups
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


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2", "lfm2"])
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


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "lfm2"])
def test_tokens_do_not_depend_on_the_batch(name: str) -> None:
    model, prompts = random_model(name), random_prompts(4)
    alone = draw(Decoder(model, 1, PLENTY), prompts, 4)
    assert len({tuple(tokens) for tokens, _ in alone.values()}) > 12
    assert {reason for _, reason in alone.values()} == {"stop", "length"}
    small = 100 * Decoder(model, 1, PLENTY)._bytes_per_token()
    for rows, memory in ((3, PLENTY), (16, PLENTY), (8, small)):
        assert draw(Decoder(model, rows, memory), prompts, 4) == alone


@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral", "gpt2"])
def test_shared_keys_of_groups_change_no_token(name: str) -> None:
    prompts = random_prompts(4)
    expected = draw(Decoder(random_model(name), 8, PLENTY), prompts, 2)
    model = random_model(name)
    _share_keys_of_groups(model)
    assert model.config._attn_implementation != "sdpa"
    assert draw(Decoder(model, 8, PLENTY), prompts, 2) == expected


def test_rows_of_several_settings_share_a_batch_and_get_what_each_gets_alone(llama: Any) -> None:
    prompts, ways = (
        random_prompts(3),
        [HOW, sampling(0), sampling(1.2, repetition_penalty=1.3), sampling(top_k=3)],
    )
    alone = [draw(Decoder(llama, 8, PLENTY), prompts, 1, how) for how in ways]
    decoder, found = Decoder(llama, 16, PLENTY), {}
    decoder.add(
        [
            Row(prompt, MAX_TOKENS, 100 * number, how, frozenset(STOPS))
            for number, prompt in enumerate(prompts)
            for how in ways
        ]
    )
    while decoder.open_rows:
        found |= {(ways.index(row.how), row.seed // 100): row.tokens for row in decoder.step()}
    for (place, number), tokens in found.items():
        assert tokens == alone[place][number, 0][0]


def test_a_prompt_is_read_once_and_finished_rows_are_not_computed(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, shapes = Decoder(llama, 4, PLENTY), list[tuple[int, int]]()
    forward = llama.forward

    @functools.wraps(forward)
    def counting(**arguments: Any) -> Any:
        shapes.append(tuple(arguments["input_ids"].shape))
        return forward(**arguments)

    monkeypatch.setattr(llama, "forward", counting)
    rows = [
        Row(prompt, MAX_TOKENS, sample, HOW, frozenset(STOPS))
        for prompt in ((9, 10, 11), (20, 21))
        for sample in range(8)
    ]
    decoder.add(rows)
    while decoder.open_rows:
        decoder.step()
    assert sorted(shape for shape in shapes if shape[1] > 1) == [(1, 2), (1, 3)]
    # Every token except the first of a row is one row of one step.
    assert sum(count for count, length in shapes if length == 1) == sum(len(row.tokens) - 1 for row in rows)
    assert decoder.generated_tokens == sum(len(row.tokens) for row in rows)


def test_a_batch_keeps_within_its_memory(llama: Any) -> None:
    per_token = Decoder(llama, 1, PLENTY)._bytes_per_token()
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


def test_memory_that_runs_out_is_an_error(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder(llama, 4, PLENTY)

    def never(**arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(llama, "forward", never)
    with pytest.raises(PrerequisiteError, match="One response does not fit into the GPU's memory"):
        draw(decoder, [(9, 10)], 1)


def test_a_model_that_ignores_the_mask_shares_no_batch(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = llama.forward

    def without_mask(**arguments: Any) -> Any:
        return forward(**{**arguments, "attention_mask": None})

    assert Decoder(llama, 4, PLENTY).notices == []
    monkeypatch.setattr(llama, "forward", without_mask)
    decoder = Decoder(llama, 4, PLENTY)
    assert "prompts of one length" in decoder.notices[0]
