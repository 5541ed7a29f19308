"""DGPO against its formula by hand, and against numbers of its public code."""

import math

import pytest
import torch

from service.errors import InputError
from trainer_adapter.methods.advantages.dgpo import dgpo_advantages
from trainer_adapter.methods.recipes import RECIPES, compose
from trainer_adapter.methods.step_advantages import step_advantages

REWARDS = [1.0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1]
LENGTHS = torch.tensor([10, 20, 30, 40, 5, 5, 5, 5, 50, 50, 50, 50, 7, 11, 13, 9, 8, 8, 8, 8])
IDS = [group for group in range(5) for _ in range(4)]
PUBLIC = {
    2.0: (3.7573148737436397, -1.25243829124788, 0.9753999219724611, -2.9261997659173833, 1.6579369994981916),
    0.5: (
        5.064466279471243,
        -1.6881554264904144,
        0.6210376749078316,
        -1.8631130247234946,
        1.5359026334608186,
    ),
}
"""Advantages by temperature, if all lengths are equal: of a correct and a wrong response of the first group,
of both of the second, and of a correct one of the fourth. They are the output of the lines of
`grpo_trainer.py` in github.com/AMAP-ML/MathForge, which add 1e-4 to the sum of distances."""


@pytest.mark.parametrize("temperature", PUBLIC)
def test_it_agrees_with_the_public_code(temperature: float) -> None:
    hard, hard_wrong, easy, easy_wrong, half = PUBLIC[temperature]
    made = dgpo_advantages(REWARDS, IDS, temperature=temperature, lengths_B=torch.ones(20)).tolist()
    expected = [hard, *[hard_wrong] * 3, *[easy] * 3, easy_wrong, *[0.0] * 4, half, half, -half, -half]
    assert made == pytest.approx([*expected, *[0.0] * 4], rel=1e-4)


def test_it_is_the_formula() -> None:
    made = dgpo_advantages(REWARDS, IDS)
    total = math.exp(-1 / 8) + math.exp(-3 / 8) + math.exp(-1 / 4)
    hard, easy, half = (3 * math.exp(-rate / 2) / total for rate in (1 / 4, 3 / 4, 1 / 2))
    # The mean of |R - mean| is 2p(1-p): 3/8, 3/8 and 1/2.
    assert made[[0, 1]].tolist() == pytest.approx([hard * 0.75 / 0.375, -hard * 0.25 / 0.375])
    assert made[[4, 7]].tolist() == pytest.approx([easy * 0.25 / 0.375, -easy * 0.75 / 0.375])
    assert made[[12, 15]].tolist() == pytest.approx([half, -half])
    sums = [float(made[4 * group : 4 * group + 4].abs().sum()) for group in (0, 1, 3)]
    assert sums == pytest.approx([4 * hard, 4 * easy, 4 * half])
    assert sum(sums) == pytest.approx(12)


def test_hard_questions_weigh_more_the_lower_the_temperature() -> None:
    sizes = [
        dgpo_advantages(REWARDS, IDS, temperature=each)[[0, 4]].abs().tolist() for each in (1e9, 2.0, 0.5)
    ]
    assert sizes[0] == pytest.approx([2.0, 2 / 3])
    assert sizes[0][0] < sizes[1][0] < sizes[2][0]
    assert sizes[0][1] > sizes[1][1] > sizes[2][1]


def test_a_group_with_format_alone_has_the_least_weight() -> None:
    rewards = [1.0, 1, 0, 0, 2, 1, 1, 1]
    correct = torch.tensor([False] * 4 + [True] + [False] * 3)
    made = dgpo_advantages(rewards, [0] * 4 + [1] * 4, correct_B=correct).tolist()
    public = [0.8146260687884209, -0.8146260687884209, 2.370508365925217, -0.7901694553084058]
    assert [made[place] for place in (0, 2, 4, 5)] == pytest.approx(public, rel=1e-4)


def test_a_step_averages_over_the_tokens_of_groups_with_a_gradient() -> None:
    recipe = RECIPES["dgpo"]
    scores = torch.tensor(REWARDS)
    mask_BT = (torch.arange(50) < LENGTHS.unsqueeze(-1)).float()
    made = step_advantages(
        recipe, scores, scores > 0, mask_BT, torch.zeros(20, 50), torch.tensor(IDS), max_length=50
    )
    assert made.advantages_B[[0, 1]].tolist() == pytest.approx(
        [5.52325286440315, -1.84108428813438], rel=1e-4
    )
    taught = made.advantages_B != 0
    mean_of_all = made.advantages_BT.sum() / mask_BT.sum()
    plain_BT = dgpo_advantages(REWARDS, IDS).float().unsqueeze(-1) * mask_BT
    mean_of_taught = plain_BT[taught].sum() / mask_BT[taught].sum()
    assert recipe.loss.aggregation == "token-mean"
    assert mean_of_all.item() == pytest.approx(mean_of_taught.item(), rel=1e-5)


def test_without_a_mixed_group_there_is_nothing_to_learn() -> None:
    assert dgpo_advantages([1.0, 1, 0, 0], [0, 0, 1, 1], lengths_B=torch.ones(4)).tolist() == [0.0] * 4


def test_a_temperature_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        dgpo_advantages(REWARDS, IDS, temperature=0.0)
    with pytest.raises(InputError, match="temperature must be above 0"):
        compose(RECIPES["dgpo"], {"temperature": 0})
