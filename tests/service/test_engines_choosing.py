"""Choose tokens: exact nuclei and cuts, penalties, and the probabilities of what was chosen."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import sampling

from service.engines.choosing import choose_tokens, log_probs, penalize
from service.errors import InputError
from service.models.settings import Sampling


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def logits_of(probabilities: list[float]) -> torch.Tensor:
    return torch.tensor([[math.log(one) if one else -math.inf for one in probabilities]], dtype=torch.float64)


def draw(probabilities: list[float], number: float, **how: float) -> int:
    (token,) = choose_tokens(logits_of(probabilities), [number], sampling(**how))
    return token


def reachable(probabilities: list[float], **how: float) -> set[int]:
    return {draw(probabilities, number, **how) for number in np.linspace(0, 0.9999, 50)}


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
def test_cuts_keep_the_most_probable_tokens(how: dict[str, float], kept: set[int]) -> None:
    assert reachable([0.2, 0.5, 0.3], **how) == kept


def test_penalties_are_those_of_vllm() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.5]])
    how = sampling(repetition_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5)
    assert penalize(logits, sampling(top_k=3), [[0, 1]], [[2, 2]]) is logits
    found = penalize(logits, how, [[0, 1]], [[2, 2]])
    assert found.tolist() == [[1.0, -4.0, 0.5 - 0.25 - 1.0, 0.5]]
    assert logits.tolist() == [[2.0, -2.0, 1.0, 0.5]]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.sampled_from([3, 300, 6000]),
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    top_p=st.sampled_from([0.1, 0.7, 0.95, 0.999, 1.0]),
)
def test_draws_agree_with_a_plain_sort_of_the_whole_vocabulary(
    seed: int, size: int, spread: float, top_p: float
) -> None:
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
    assert choose_tokens(torch.tensor(rows), numbers.tolist(), sampling(top_p=top_p)) == expected


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_logits_that_are_not_numbers_are_an_error(temperature: float) -> None:
    with pytest.raises(InputError, match="not finite numbers"):
        choose_tokens(torch.tensor([[0.0, math.nan]]), [0.5], sampling(temperature))


def probabilities(how: Sampling) -> list[float]:
    """Return the probabilities of four tokens, of 0.5, 0.3, 0.15 and 0.05, as if each had been drawn."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(4, 4)
    return [round(math.exp(value), 4) for value in log_probs(logits, range(4), how)]


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (sampling(top_p=0.8), [0.625, 0.375]),
        (sampling(top_p=0.81), [0.5263, 0.3158, 0.1579]),
        (sampling(top_p=1e-9), [1.0]),
        (sampling(top_k=2), [0.625, 0.375, 0.0, 0.0]),
        (sampling(min_p=0.2), [0.5263, 0.3158, 0.1579, 0.0]),
    ],
)
def test_log_probs_are_of_the_tokens_that_could_be_drawn(how: Sampling, kept: list[float]) -> None:
    assert probabilities(how)[: len(kept)] == kept
