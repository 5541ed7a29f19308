"""Anchors tapered and dropped, and MaxRL: by hand, and what they equal where nothing is to be weighed."""

import math
from typing import Any

import pytest
import torch

from trainer_adapter.methods.advantages.max_rl import max_rl_advantages
from trainer_adapter.methods.groups import Groups
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.methods.response_weights import anchor_weights
from trainer_adapter.methods.step_advantages import StepAdvantages, step_advantages

FOREIGN = torch.tensor([False, False, True, True, True, True])
ADVANTAGES = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 0.0])
LOG_RATIO = torch.tensor([-9.0, -9.0, -9.0, math.log(0.25), 3.0, -math.inf])


def test_tapered_weighs_what_neighbors_got_wrong_by_how_likely_the_question_makes_it() -> None:
    weights = anchor_weights("tapered", ADVANTAGES, FOREIGN, LOG_RATIO)
    assert weights is not None
    torch.testing.assert_close(weights, torch.tensor([1, 1, 1, 0.25, 1, 0]).double())


def test_dropped_leaves_it_out_and_the_others_weigh_nothing() -> None:
    weights = anchor_weights("dropped", ADVANTAGES, FOREIGN, None)
    assert weights is not None
    assert weights.tolist() == [1, 1, 1, 0, 0, 0]
    assert anchor_weights("question", ADVANTAGES, FOREIGN, LOG_RATIO) is None
    with pytest.raises(ValueError, match="needs the sampling log-probs, but the"):
        anchor_weights("tapered", ADVANTAGES, FOREIGN, None)


def step(correct: list[int], log_ratio: list[float], **changes: Any) -> dict[str, Any]:
    """Return one question's responses: the first half of them for itself, the others for neighbors."""
    rows = len(correct)
    return {
        "scores_B": torch.tensor(correct).double(),
        "correct_B": torch.tensor(correct) > 0,
        "mask_BT": torch.ones(rows, 3),
        "old_log_probs_BT": -torch.rand(rows, 3, generator=torch.Generator().manual_seed(1)),
        "group_B": torch.zeros(rows, dtype=torch.long),
        "max_length": 3,
        "foreign_B": torch.arange(rows) >= rows // 2,
        "log_ratio_B": torch.tensor(log_ratio),
        **changes,
    }


def advantages(recipe: Recipe, given: dict[str, Any]) -> StepAdvantages:
    return step_advantages(recipe, **given)


@pytest.mark.parametrize("name", ["ta_grpo_tapered", "ta_rescue"])
def test_responses_as_likely_on_the_question_are_trained_as_by_ta_grpo(name: str) -> None:
    given = step([0, 0, 0, 0, 1, 0, 0, 1], [0.0] * 8)
    weighed = advantages(RECIPES[name], given)
    plain = advantages(compose(RECIPES["ta_grpo"], {"responses": 2}), given)
    torch.testing.assert_close(weighed.advantages_BT, plain.advantages_BT)
    assert weighed.response_weights_B is not None
    assert plain.response_weights_B is None


def test_weights_stand_on_the_tokens_and_not_in_the_advantage_of_the_group() -> None:
    given = step([0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, -2.0, -2.0, 1.0, -1.0])
    made = advantages(RECIPES["ta_grpo_tapered"], given)
    spread = math.sqrt(1 / 8 * 7 / 8)
    down, up = -1 / 8 / spread, 7 / 8 / spread
    torch.testing.assert_close(made.advantages_B, torch.tensor([down] * 4 + [up] + [down] * 3).double())
    weighed = [down] * 4 + [up, down * math.exp(-2), down, down * math.exp(-1)]
    torch.testing.assert_close(made.advantages_BT, torch.tensor(weighed)[:, None].expand(8, 3))


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_a_weight_on_the_advantage_is_one_on_the_clipped_surrogate(dual_clip: float | None) -> None:
    chance = torch.Generator().manual_seed(3)
    new, old = (torch.randn(64, 5, generator=chance) for _ in range(2))
    advantage, weight = torch.randn(64, generator=chance), torch.rand(64, generator=chance)

    def loss(values: Any) -> Any:
        return clipped_surrogate(new, old, values, clip_high=0.28, dual_clip=dual_clip).loss_BT

    torch.testing.assert_close(loss(weight * advantage), weight[:, None] * loss(advantage))


def test_max_rl_divides_by_the_mean() -> None:
    groups = Groups.of([0] * 4 + [1] * 4 + [2] * 2)
    made = max_rl_advantages([1, 0, 0, 0, 1, 1, 1, 0, 0, 0], groups)
    torch.testing.assert_close(
        made, torch.tensor([3, -1, -1, -1, 1 / 3, 1 / 3, 1 / 3, -1, 0, 0], dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="rewards must be 0 or more"):
        max_rl_advantages([1, -1], [0, 0])
