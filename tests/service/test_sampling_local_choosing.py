"""Choosing tokens: the nucleus is exact, a row's choice is its own, frequencies are right."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InputError
from service.models.local.choosing import Uniforms, choose_tokens


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def logits_of(probabilities: list[float]) -> torch.Tensor:
    return torch.tensor([[math.log(one) if one else -math.inf for one in probabilities]], dtype=torch.float64)


def drawn(probabilities: list[float], number: float, *, temperature: float = 1.0, top_p: float = 1.0) -> int:
    (token,) = choose_tokens(logits_of(probabilities), [number], temperature=temperature, top_p=top_p)
    return token


@pytest.mark.parametrize(
    ("number", "token"), [(0.0, 0), (0.19, 0), (0.21, 1), (0.69, 1), (0.71, 2), (0.999, 2)]
)
def test_a_number_is_looked_up_in_order_of_ids(number: float, token: int) -> None:
    assert drawn([0.2, 0.5, 0.3], number) == token


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.5, {1}), (0.51, {1, 2}), (0.8, {1, 2}), (0.81, {0, 1, 2}), (1.0, {0, 1, 2})]
)
def test_the_nucleus_is_the_smallest_set_that_holds_top_p(top_p: float, kept: set[int]) -> None:
    numbers = np.linspace(0, 0.9999, 50)
    assert {drawn([0.2, 0.5, 0.3], number, top_p=top_p - 1e-9) for number in numbers} == kept


def test_temperature_sharpens_before_the_nucleus_is_cut() -> None:
    # At temperature 0.5 the probabilities are 4/38, 25/38, 9/38.
    assert drawn([0.2, 0.5, 0.3], 0.6, temperature=0.5, top_p=0.65) == 1
    assert drawn([0.2, 0.5, 0.3], 0.99, temperature=0.5, top_p=0.65) == 1
    assert drawn([0.2, 0.5, 0.3], 4 / 38 - 0.001, temperature=0.5) == 0
    assert drawn([0.2, 0.5, 0.3], 4 / 38 + 0.001, temperature=0.5) == 1


def test_greedy_takes_the_first_of_the_most_probable() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0], [5.0, 1.0, 2.0]])
    assert choose_tokens(logits, [], temperature=0, top_p=0.5) == [1, 0]


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
    found = choose_tokens(torch.tensor(rows), numbers.tolist(), temperature=1.0, top_p=top_p)
    assert found == expected


def test_frequencies_are_the_probabilities_of_the_nucleus() -> None:
    uniforms = [Uniforms(seed).at(0) for seed in range(4000)]
    logits = logits_of([0.1, 0.4, 0.3, 0.2]).expand(4000, -1)
    counts = np.bincount(choose_tokens(logits, uniforms, temperature=1.0, top_p=0.85), minlength=4)
    assert counts[0] == 0
    expected = 4000 * np.array([4 / 9, 3 / 9, 2 / 9])
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 13.8  # chi-squared, 2 degrees, p = 0.001


def test_a_rows_choice_does_not_depend_on_the_others() -> None:
    logits = torch.randn(200, 50, generator=torch.Generator().manual_seed(0))
    uniforms = [Uniforms(seed).at(0) for seed in range(200)]
    together = choose_tokens(logits, uniforms, temperature=0.7, top_p=0.9)
    alone = [
        choose_tokens(logits[place : place + 1], [uniforms[place]], temperature=0.7, top_p=0.9)[0]
        for place in range(200)
    ]
    assert together == alone


def test_the_numbers_of_a_seed_are_always_the_same() -> None:
    first, second = Uniforms(7), Uniforms(7)
    numbers = [first.at(place) for place in range(600)]
    assert [second.at(place) for place in (0, 255, 256, 599)] == [
        numbers[place] for place in (0, 255, 256, 599)
    ]
    assert len(set(numbers)) == 600
    assert Uniforms(8).at(0) != numbers[0]


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_logits_that_are_no_numbers_are_an_error(temperature: float) -> None:
    with pytest.raises(InputError, match="not finite numbers"):
        choose_tokens(torch.tensor([[0.0, math.nan]]), [0.5], temperature=temperature, top_p=0.9)
