"""Pass@k Training against every set of k responses, and against numbers of its public code."""

import itertools
import math

import pytest
import torch

from service.errors import InputError
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.pass_k import pass_k_advantages
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.methods.step_advantages import step_advantages

PUBLIC = [
    (8, 1, 1, 2.6457433110887805, -0.37796333015554007),
    (8, 1, 4, 0.999998000004, -0.1428568571434285),
    (8, 3, 4, 0.2773490211937191, -0.16640941271623166),
    (8, 4, 4, 0.12038483860156443, -0.12038483860156528),
    (8, 5, 4, 0.0, 0.0),
    (8, 1, 8, 0.0, 0.0),
    (32, 1, 4, 2.6457433110887805, -0.08534655842221864),
    (32, 8, 4, 0.6476376240338018, -0.21587920801126717),
    (32, 16, 8, 0.03500015226966841, -0.035000152269667247),
    (32, 28, 4, 0.005272466730476234, -0.03690726711330232),
    (32, 2, 16, 0.5649313637201763, -0.037662090914678384),
]
"""Responses, correct ones, k, and the advantages of a correct and a wrong one: output of `passk_adv.py` in
github.com/RUCAIBox/Passk_Training, which adds 1e-6 to the deviation."""


def over_all_sets(rewards: list[float], k: int) -> list[float]:
    """The advantage of each response as the mean over the sets with it, by listing the sets."""
    sets = list(itertools.combinations(range(len(rewards)), k))
    values = [max(rewards[place] for place in each) for each in sets]
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if std == 0:
        return [0.0] * len(rewards)
    with_it = [
        [value for value, each in zip(values, sets, strict=True) if place in each]
        for place in range(len(rewards))
    ]
    return [(math.fsum(part) / len(part) - mean) / std for part in with_it]


@pytest.mark.parametrize("size", range(1, 10))
def test_it_is_the_mean_over_all_sets_of_k(size: int) -> None:
    for k in range(1, size + 1):
        for right in range(size + 1):
            rewards = [1.0] * right + [0.0] * (size - right)
            made = pass_k_advantages(rewards, [0] * size, k=k).tolist()
            assert made == pytest.approx(over_all_sets(rewards, k), rel=1e-12, abs=1e-12)
            assert sum(made) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("size", "right", "k", "of_right", "of_wrong"), PUBLIC)
def test_it_agrees_with_the_public_code(
    size: int, right: int, k: int, of_right: float, of_wrong: float
) -> None:
    rewards = torch.tensor([1.0] * right + [0.0] * (size - right))
    made = pass_k_advantages(rewards, [0] * size, k=k)
    assert made[0].item() == pytest.approx(of_right, rel=2e-4)
    assert made[-1].item() == pytest.approx(of_wrong, rel=2e-4)


def test_k_of_1_is_grpo() -> None:
    rewards, ids = torch.tensor([1.0, 0, 0, 1, 1, 1, 0, 0, 0, 1]), [0, 1, 0, 1, 1, 2, 2, 3, 3, 0]
    torch.testing.assert_close(pass_k_advantages(rewards, ids, k=1), grpo_advantages(rewards, ids))


def test_a_group_smaller_than_k_has_no_advantage() -> None:
    assert pass_k_advantages([1, 0, 0], [0, 0, 0], k=4).tolist() == [0.0] * 3


def test_it_refuses_rewards_between_right_and_wrong() -> None:
    with pytest.raises(ValueError, match="rewards of 0 and 1"):
        pass_k_advantages([1.0, 0.5], [0, 0])
    with pytest.raises(InputError, match="binary reward"):
        compose(RECIPES["pass_k"], {"reward": "overlong"})


@pytest.mark.parametrize(
    ("changes", "groups"),
    [
        ({}, [0] * 8 + [1] * 8),
        ({"neighbors": 3, "responses": 4, "k": 8}, [0] * 16),
        ({"neighbors": 1, "group": "prompt", "anchor": "own", "k": 2}, [0] * 8 + [1] * 8),
    ],
    ids=["question", "joint", "prompt"],
)
def test_a_step_uses_the_recipes_k_on_its_groups(changes: dict[str, object], groups: list[int]) -> None:
    recipe: Recipe = compose(RECIPES["pass_k"], changes)
    assert recipe.group_size == groups.count(0)
    scores = torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0])
    made = step_advantages(
        recipe, scores, scores > 0, torch.ones(16, 2), torch.zeros(16, 2), torch.tensor(groups), max_length=2
    )
    k = int(recipe.settings["k"])
    expected = [
        value
        for group in sorted(set(groups))
        for value in over_all_sets([s for s, g in zip(scores.tolist(), groups, strict=True) if g == group], k)
    ]
    assert made.advantages_B.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert made.advantages_BT[:, 1].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "says"), [(9, "k must be between 1"), (0, "k must be between 1"), (2.5, "Give a whole number")]
)
def test_k_must_fit_the_group(k: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        compose(RECIPES["pass_k"], {"k": k})
