import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")
pytest.importorskip("transformers", reason="needs transformers: pip install 'tagrpo[train]'")

from tiny_model import save_tiny_model

from trainer_adapter.sampling import SamplingParams, choose, draw, from_verl

PROMPTS = [[5, 6, 7, 8, 9], [40], [70, 71, 72]]
GREEDY = SamplingParams(temperature=0.0, max_tokens=6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoModelForCausalLM

    folder: Path = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def generator(seed: int = 0) -> Any:
    return torch.Generator().manual_seed(seed)


def shares(params: SamplingParams, *, draws: int = 4000) -> tuple[dict[int, float], set[float]]:
    """Draw from probabilities 0.5, 0.3, 0.15, 0.05; return the shares and the log-probabilities seen."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(draws, 4)
    tokens, log_probs = choose(logits, [params] * draws, [generator(7)] * draws)
    return (
        {token: count / draws for token, count in Counter(tokens.tolist()).items()},
        {round(math.exp(value), 4) for value in log_probs.tolist()},
    )


def test_tokens_are_drawn_with_their_probabilities() -> None:
    drawn, probabilities = shares(SamplingParams(1.0, 1))
    assert drawn == pytest.approx({0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05}, abs=0.03)
    assert probabilities == {0.5, 0.3, 0.15, 0.05}


def test_temperature_sharpens_and_the_log_probability_follows() -> None:
    drawn, probabilities = shares(SamplingParams(0.5, 1))
    squares = [0.25, 0.09, 0.0225, 0.0025]
    assert drawn[0] == pytest.approx(0.25 / sum(squares), abs=0.03)
    assert probabilities == {round(square / sum(squares), 4) for square in squares}


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        (SamplingParams(1.0, 1, top_k=2), {0.625, 0.375}),
        (SamplingParams(1.0, 1, top_p=0.8), {0.625, 0.375}),
        (SamplingParams(1.0, 1, top_p=0.81), {0.5263, 0.3158, 0.1579}),
        (SamplingParams(1.0, 1, top_p=0.0), {1.0}),
        (SamplingParams(0.0, 1, top_p=0.1), {0.5}),
    ],
)
def test_truncation_keeps_the_likeliest_and_normalises(params: SamplingParams, kept: set[float]) -> None:
    drawn, probabilities = shares(params)
    assert probabilities == kept
    assert set(drawn) == set(range(len(kept)))


def test_greedy_is_that_of_transformers_whatever_is_beside_it(model: Any) -> None:
    drawn = draw(model, PROMPTS, [GREEDY] * 3, end_ids=(), shared=generator())
    for prompt, response in zip(PROMPTS, drawn, strict=True):
        ids = torch.tensor([prompt])
        alone = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=6,
            eos_token_id=None,
        )
        assert response.token_ids == alone[0, len(prompt) :].tolist()
        assert not response.ended


def test_log_probabilities_are_those_of_a_plain_forward(model: Any) -> None:
    hot = SamplingParams(temperature=0.7, max_tokens=5)
    for prompt, response in zip(
        PROMPTS, draw(model, PROMPTS, [hot] * 3, end_ids=(), shared=generator()), strict=True
    ):
        whole = torch.tensor([prompt + response.token_ids])
        with torch.no_grad():
            log_p = torch.log_softmax(model(whole).logits / 0.7, dim=-1)[0, len(prompt) - 1 : -1]
        expected = log_p.gather(-1, torch.tensor(response.token_ids)[:, None])[:, 0].tolist()
        assert response.log_probs == pytest.approx(expected, abs=1e-5)


def test_a_seed_repeats_a_response_whatever_is_drawn_beside_it(model: Any) -> None:
    seeded = SamplingParams(temperature=1.0, max_tokens=8, seed=11)
    other = SamplingParams(temperature=1.3, max_tokens=3)
    [alone] = draw(model, PROMPTS[:1], [seeded], end_ids=(), shared=generator(1))
    beside = draw(model, PROMPTS, [seeded, other, other], end_ids=(), shared=generator(2))
    assert beside[0].token_ids == alone.token_ids
    [different] = draw(model, PROMPTS[:1], [SamplingParams(1.0, 8, seed=12)], end_ids=(), shared=generator(1))
    assert different.token_ids != alone.token_ids


def test_a_response_ends_with_an_end_token_or_at_its_own_limit(model: Any) -> None:
    def params(limit: int = 6, stop: tuple[int, ...] = ()) -> SamplingParams:
        return SamplingParams(1.0, limit, seed=3, stop_token_ids=stop)

    [free] = draw(model, PROMPTS[:1], [params()], end_ids=(), shared=generator())
    first, second, third = free.token_ids[:3]
    assert third not in {first, second}
    ended, cut = draw(model, PROMPTS[:1] * 2, [params(), params(2)], end_ids={third}, shared=generator())
    assert (ended.token_ids, ended.ended) == ([first, second, third], True)
    assert ended.log_probs == pytest.approx(free.log_probs[:3], abs=1e-6)
    assert (cut.token_ids, cut.ended) == ([first, second], False)
    [stopped] = draw(model, PROMPTS[:1], [params(stop=(second,))], end_ids={third}, shared=generator())
    assert (stopped.token_ids, stopped.ended) == ([first, second], True)


def test_parameters_of_verl_are_read() -> None:
    sent = {"temperature": 0.6, "top_p": 0.9, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
    assert from_verl(sent, response_length=16) == SamplingParams(0.6, 16, top_p=0.9)
    assert from_verl({"max_tokens": 4, "seed": 3}, response_length=16) == SamplingParams(1.0, 4, seed=3)
    assert from_verl({"max_tokens": 99}, response_length=16).max_tokens == 16


@pytest.mark.parametrize(
    ("sent", "message"),
    [({"min_p": 0.1}, "does not know min_p"), ({"repetition_penalty": 1.2}, "has none, use 1.0")],
)
def test_parameters_that_would_be_ignored_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_verl(sent, response_length=16)
