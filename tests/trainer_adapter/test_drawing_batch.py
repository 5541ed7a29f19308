import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import save_tiny_model

from service.errors import PrerequisiteError
from service.models.local.cache import Room
from trainer_adapter.verl.cpu.drawing_batch import (
    DrawingBatch,
    Drawn,
    SamplingParams,
    from_verl,
    token_log_probs,
)

PROMPTS = [[5, 6, 7, 8, 9], [40], [70, 71, 72]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoModelForCausalLM

    folder: Path = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def draw(
    model: Any,
    prompts: list[list[int]],
    params: list[SamplingParams],
    *,
    end_ids: Any = (),
    seed: int = 0,
    rows: int = 64,
) -> list[Drawn]:
    """Draw one response for each prompt, all at once."""
    batch = DrawingBatch(model, end_ids, Room(rows, 1 << 20), seed)
    for number, (prompt, how) in enumerate(zip(prompts, params, strict=True)):
        batch.add(number, prompt, how)
    finished: dict[int, Drawn] = {}
    while batch.under_way:
        finished.update(batch.step())
    return [finished[number] for number in range(len(prompts))]


def probabilities(temperature: float, top_p: float) -> list[float]:
    """Return the probabilities of four tokens, of 0.5, 0.3, 0.15 and 0.05, as if each had been drawn."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(4, 4)
    values = token_log_probs(logits, torch.arange(4), temperature, top_p)
    return [round(math.exp(value), 4) for value in values]


def test_log_probs_follow_temperature() -> None:
    assert probabilities(1.0, 1.0) == [0.5, 0.3, 0.15, 0.05]
    assert probabilities(0.0, 0.1) == [0.5, 0.3, 0.15, 0.05]
    squares = [0.25, 0.09, 0.0225, 0.0025]
    assert probabilities(0.5, 1.0) == [round(square / sum(squares), 4) for square in squares]


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.8, [0.625, 0.375]), (0.81, [0.5263, 0.3158, 0.1579]), (1e-9, [1.0])]
)
def test_log_probs_are_of_the_nucleus(top_p: float, kept: list[float]) -> None:
    assert probabilities(1.0, top_p)[: len(kept)] == kept


def test_tokens_are_drawn_with_the_probabilities_they_report(model: Any) -> None:
    draws = 1500
    first = draw(model, [PROMPTS[0]] * draws, [SamplingParams(0.25, 1, top_p=0.9)] * draws)
    seen = Counter(response.token_ids[0] for response in first)
    reported = {response.token_ids[0]: math.exp(response.log_probs[0]) for response in first}
    assert len(reported) > 1
    assert sum(reported.values()) == pytest.approx(1.0, abs=0.02)
    for token, probability in reported.items():
        assert seen[token] / draws == pytest.approx(probability, abs=0.05)


def test_log_probabilities_are_those_of_a_plain_forward(model: Any) -> None:
    hot = SamplingParams(temperature=0.7, max_tokens=5)
    for prompt, response in zip(PROMPTS, draw(model, PROMPTS, [hot] * 3), strict=True):
        whole = torch.tensor([prompt + response.token_ids])
        with torch.no_grad():
            log_p = torch.log_softmax(model(whole).logits / 0.7, dim=-1)[0, len(prompt) - 1 : -1]
        expected = log_p.gather(-1, torch.tensor(response.token_ids)[:, None])[:, 0].tolist()
        assert response.log_probs == pytest.approx(expected, abs=1e-5)


def test_a_seed_repeats_a_response_whatever_is_drawn_beside_it(model: Any) -> None:
    seeded = SamplingParams(temperature=1.0, max_tokens=8, seed=11)
    other = SamplingParams(temperature=1.3, max_tokens=3)
    [alone] = draw(model, PROMPTS[:1], [seeded], seed=1)
    beside = draw(model, PROMPTS, [seeded, other, other], seed=2)
    assert beside[0].token_ids == alone.token_ids
    [different] = draw(model, PROMPTS[:1], [SamplingParams(1.0, 8, seed=12)], seed=1)
    assert different.token_ids != alone.token_ids


def test_a_response_ends_with_an_end_token_or_at_its_own_limit(model: Any) -> None:
    def params(limit: int = 6, stop: tuple[int, ...] = ()) -> SamplingParams:
        return SamplingParams(1.0, limit, seed=3, stop_token_ids=stop)

    [free] = draw(model, PROMPTS[:1], [params()])
    first, second, third = free.token_ids[:3]
    assert third not in {first, second}
    ended, cut = draw(model, PROMPTS[:1] * 2, [params(), params(2)], end_ids={third})
    assert (ended.token_ids, ended.ended) == ([first, second, third], True)
    assert ended.log_probs == pytest.approx(free.log_probs[:3], abs=1e-6)
    assert (cut.token_ids, cut.ended) == ([first, second], False)
    [stopped] = draw(model, PROMPTS[:1], [params(stop=(second,))], end_ids={third})
    assert (stopped.token_ids, stopped.ended) == ([first, second], True)


def test_responses_join_those_under_way_and_a_full_batch_lets_them_wait(model: Any) -> None:
    seeded = [SamplingParams(1.0, 6, seed=number) for number in range(6)]
    prompts = [PROMPTS[number % 3] for number in range(6)]
    together = draw(model, prompts, seeded)
    batch = DrawingBatch(model, (), Room(2, 1 << 20))
    finished: dict[int, Drawn] = {}
    for number in range(6):
        batch.add(number, prompts[number], seeded[number])
        finished.update(batch.step())
    while batch.under_way:
        finished.update(batch.step())
    for number in range(6):
        assert finished[number].token_ids == together[number].token_ids
        assert finished[number].log_probs == pytest.approx(together[number].log_probs, abs=1e-5)
    batch.add(0, prompts[0], seeded[0])
    batch.clear()
    assert batch.under_way == 0


def test_a_model_without_keys_and_values_is_refused() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    sizes = {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "vocab_size": 50}
    with pytest.raises(PrerequisiteError, match="MambaForCausalLM does not cache keys and values"):
        DrawingBatch(MambaForCausalLM(MambaConfig(**sizes)).eval(), (), Room(2, 100))


def test_parameters_of_verl_are_read() -> None:
    sent = {"temperature": 0.6, "top_p": 0.9, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
    assert from_verl(sent, response_length=16) == SamplingParams(0.6, 16, top_p=0.9)
    assert from_verl({"max_tokens": 4, "seed": 3}, response_length=16) == SamplingParams(1.0, 4, seed=3)
    assert from_verl({"max_tokens": 99}, response_length=16).max_tokens == 16


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"min_p": 0.1}, "does not support min_p"),
        (
            {"repetition_penalty": 1.2},
            r"repetition_penalty is 1\.2, which the CPU rollout does not support\. Use 1\.0",
        ),
        ({"top_k": 40}, r"top_k is 40, which the CPU rollout does not support\. Use -1"),
    ],
)
def test_parameters_that_would_be_ignored_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_verl(sent, response_length=16)
