"""Advantages and token weights: by hand, identities, and numbers of public code."""

import itertools
import math
from typing import Any

import pytest
import torch

from trainer_adapter.methods.advantages.a_grae import a_grae_advantages
from trainer_adapter.methods.advantages.dgpo import dgpo_advantages
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.max_rl import max_rl_advantages
from trainer_adapter.methods.advantages.pass_k import pass_k_advantages
from trainer_adapter.methods.advantages.rloo import rloo_advantages
from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.losses.aggregation import aggregate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.methods.rewards import overlong_penalty, shaped_rewards
from trainer_adapter.methods.step_advantages import StepAdvantages, anchor_weights, step_advantages
from trainer_adapter.methods.token_weights import covariance
from trainer_adapter.methods.token_weights.cw_grpo import cw_grpo_weights

DGPO_REWARDS = [1.0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1]
DGPO_LENGTHS = torch.tensor([10, 20, 30, 40, 5, 5, 5, 5, 50, 50, 50, 50, 7, 11, 13, 9, 8, 8, 8, 8])
DGPO_IDS = [group for group in range(5) for _ in range(4)]
DGPO_PUBLIC = {
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


@pytest.mark.parametrize("temperature", DGPO_PUBLIC)
def test_dgpo_agrees_with_the_public_code(temperature):
    hard, hard_wrong, easy, easy_wrong, half = DGPO_PUBLIC[temperature]
    made = dgpo_advantages(DGPO_REWARDS, DGPO_IDS, temperature=temperature, lengths_B=torch.ones(20)).tolist()
    expected = [hard, *[hard_wrong] * 3, *[easy] * 3, easy_wrong, *[0.0] * 4, half, half, -half, -half]
    assert made == pytest.approx([*expected, *[0.0] * 4], rel=1e-4)


def test_dgpo_gives_a_group_with_format_alone_the_least_weight():
    rewards = [1.0, 1, 0, 0, 2, 1, 1, 1]
    correct = torch.tensor([False] * 4 + [True] + [False] * 3)
    made = dgpo_advantages(rewards, [0] * 4 + [1] * 4, correct_B=correct).tolist()
    public = [0.8146260687884209, -0.8146260687884209, 2.370508365925217, -0.7901694553084058]
    assert [made[place] for place in (0, 2, 4, 5)] == pytest.approx(public, rel=1e-4)


def test_a_step_of_dgpo_averages_over_the_tokens_of_groups_with_a_gradient():
    recipe = RECIPES["dgpo"]
    scores = torch.tensor(DGPO_REWARDS)
    mask_BT = (torch.arange(50) < DGPO_LENGTHS.unsqueeze(-1)).float()
    made = step_advantages(
        recipe, scores, scores > 0, mask_BT, torch.zeros(20, 50), torch.tensor(DGPO_IDS), max_length=50
    )
    assert made.advantages_B[[0, 1]].tolist() == pytest.approx([5.523252864, -1.841084288], rel=1e-4)
    taught = made.advantages_B != 0
    mean_of_all = made.advantages_BT.sum() / mask_BT.sum()
    plain_BT = dgpo_advantages(DGPO_REWARDS, DGPO_IDS).float().unsqueeze(-1) * mask_BT
    mean_of_taught = plain_BT[taught].sum() / mask_BT[taught].sum()
    assert recipe.loss.aggregation == "token-mean"
    assert mean_of_all.item() == pytest.approx(mean_of_taught.item(), rel=1e-5)


PASS_K_PUBLIC = [
    (8, 1, 1, 2.6457433110887805, -0.37796333015554007),
    (8, 1, 4, 0.999998000004, -0.1428568571434285),
    (8, 3, 4, 0.2773490211937191, -0.16640941271623166),
    (8, 5, 4, 0.0, 0.0),
    (8, 1, 8, 0.0, 0.0),
    (32, 8, 4, 0.6476376240338018, -0.21587920801126717),
    (32, 16, 8, 0.03500015226966841, -0.035000152269667247),
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
    pairs = list(zip(values, sets, strict=True))
    with_it = [[value for value, each in pairs if place in each] for place in range(len(rewards))]
    return [(math.fsum(part) / len(part) - mean) / std for part in with_it]


@pytest.mark.parametrize("size", range(1, 10))
def test_pass_k_is_the_mean_over_all_sets_of_k(size):
    for k in range(1, size + 1):
        for right in range(size + 1):
            rewards = [1.0] * right + [0.0] * (size - right)
            made = pass_k_advantages(rewards, [0] * size, k=k).tolist()
            assert made == pytest.approx(over_all_sets(rewards, k), rel=1e-12, abs=1e-12)
            assert sum(made) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("size", "right", "k", "of_right", "of_wrong"), PASS_K_PUBLIC)
def test_pass_k_agrees_with_the_public_code(size, right, k, of_right, of_wrong):
    rewards = torch.tensor([1.0] * right + [0.0] * (size - right))
    made = pass_k_advantages(rewards, [0] * size, k=k)
    assert made[0].item() == pytest.approx(of_right, rel=2e-4)
    assert made[-1].item() == pytest.approx(of_wrong, rel=2e-4)


@pytest.mark.parametrize(
    ("changes", "groups"),
    [
        ({}, [0] * 8 + [1] * 8),
        ({"neighbors": 3, "responses": 4, "k": 8}, [0] * 16),
        ({"neighbors": 1, "group": "prompt", "anchor": "own", "k": 2}, [0] * 8 + [1] * 8),
    ],
    ids=["question", "joint", "prompt"],
)
def test_a_step_uses_the_recipes_k_on_its_groups(changes, groups):
    recipe: Recipe = compose(RECIPES["pass_k"], changes)
    assert recipe.group_size == groups.count(0)
    scores = torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0])
    made = step_advantages(
        recipe, scores, scores > 0, torch.ones(16, 2), torch.zeros(16, 2), torch.tensor(groups), max_length=2
    )
    k = int(recipe.settings["k"])
    by_group = [
        [s for s, g in zip(scores.tolist(), groups, strict=True) if g == group]
        for group in sorted(set(groups))
    ]
    expected = [value for of_group in by_group for value in over_all_sets(of_group, k)]
    assert made.advantages_B.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert made.advantages_BT[:, 1].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_values_outside_of_their_range_are_refused():
    for compute, message in (
        (lambda: dgpo_advantages(DGPO_REWARDS, DGPO_IDS, temperature=0.0), "must be above 0"),
        (lambda: pass_k_advantages([1.0, 0.5], [0, 0]), "rewards of 0 and 1"),
        (lambda: max_rl_advantages([1, -1], [0, 0]), "rewards must be 0 or more"),
        (
            lambda: anchor_weights("tapered", ADVANTAGES, FOREIGN, None),
            "needs the sampling log-probs, but the",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            compute()


FOREIGN = torch.tensor([False, False, True, True, True, True])
ADVANTAGES = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 0.0])
LOG_RATIO = torch.tensor([-9.0, -9.0, -9.0, math.log(0.25), 3.0, -math.inf])


def test_anchors_weigh_what_neighbors_got_wrong():
    for anchor, expected in (("tapered", [1, 1, 1, 0.25, 1, 0]), ("dropped", [1, 1, 1, 0, 0, 0])):
        weights = anchor_weights(anchor, ADVANTAGES, FOREIGN, LOG_RATIO)
        torch.testing.assert_close(weights, torch.tensor(expected).double())
    assert anchor_weights("question", ADVANTAGES, FOREIGN, LOG_RATIO) is None


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
def test_responses_as_likely_on_the_question_are_trained_as_by_ta_grpo(name):
    given = step([0, 0, 0, 0, 1, 0, 0, 1], [0.0] * 8)
    weighed = advantages(RECIPES[name], given)
    plain = advantages(compose(RECIPES["ta_grpo"], {"responses": 2}), given)
    torch.testing.assert_close(weighed.advantages_BT, plain.advantages_BT)
    assert weighed.response_weights_B is not None
    assert plain.response_weights_B is None


def test_weights_stand_on_the_tokens_and_not_in_the_advantage_of_the_group():
    given = step([0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, -2.0, -2.0, 1.0, -1.0])
    made = advantages(RECIPES["ta_grpo_tapered"], given)
    spread = math.sqrt(1 / 8 * 7 / 8)
    down, up = -1 / 8 / spread, 7 / 8 / spread
    torch.testing.assert_close(made.advantages_B, torch.tensor([down] * 4 + [up] + [down] * 3).double())
    weighed = [down] * 4 + [up, down * math.exp(-2), down, down * math.exp(-1)]
    torch.testing.assert_close(made.advantages_BT, torch.tensor(weighed)[:, None].expand(8, 3))


def test_max_rl_divides_by_the_mean():
    groups = Groups.of([0] * 4 + [1] * 4 + [2] * 2)
    made = max_rl_advantages([1, 0, 0, 0, 1, 1, 1, 0, 0, 0], groups)
    expected = [3, -1, -1, -1, 1 / 3, 1 / 3, 1 / 3, -1, 0, 0]
    assert made.tolist() == pytest.approx(expected)


def test_a_group_of_one_has_no_advantage_unless_as_the_public_code_has_it():
    for paper in (grpo_advantages([1.0], ["q"]), rloo_advantages([1.0], ["q"])):
        assert paper.tolist() == [0.0]
    assert grpo_advantages([1.0], ["q"], formula="repo").tolist() == pytest.approx([1 / (1 + 1e-6)])
    assert rloo_advantages([1.0], ["q"], formula="repo").tolist() == [1.0]


def test_overlong_penalty_falls_from_0_to_minus_1():
    lengths = torch.tensor([0, 60, 80, 81, 90, 100, 101, 500])
    expected = [0, 0, 0, -0.05, -0.5, -1, -1, -1]
    assert overlong_penalty(lengths, 100, 20).tolist() == pytest.approx(expected)
    assert overlong_penalty(lengths, 100, 20).dtype == torch.float64
    with pytest.raises(ValueError, match="has 101 tokens"):
        overlong_penalty(lengths, 100, 101)
    with pytest.raises(ValueError, match="Give 1 to 100"):
        overlong_penalty(lengths, 100, 0)


def random_batch(seed: int, rows: int = 4, tokens: int = 6) -> tuple[torch.Tensor, ...]:
    chance = torch.Generator().manual_seed(seed)
    log_prob, old = (-torch.rand(rows, tokens, dtype=torch.float64, generator=chance) * 2 for _ in range(2))
    lengths = torch.randint(1, tokens + 1, (rows,), generator=chance)
    mask = (torch.arange(tokens) < lengths.unsqueeze(-1)).to(torch.float64)
    advantages = torch.randn(rows, dtype=torch.float64, generator=chance)
    return log_prob, old, mask, advantages


def test_padding_takes_no_part_whatever_it_holds():
    log_prob, old, mask, advantages = random_batch(5)
    spoiled = log_prob.masked_fill(mask == 0, float("nan"))
    for mode in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum"):
        clean = aggregate(clipped_surrogate(log_prob, old, advantages).loss_BT, mask, mode)
        assert aggregate(clipped_surrogate(spoiled, old, advantages).loss_BT, mask, mode) == clean
    weights = cw_grpo_weights(log_prob, advantages, mask)
    assert torch.equal(cw_grpo_weights(spoiled, advantages, mask), weights)


def test_a_grae_takes_success_from_answers_where_form_is_rewarded_too():
    """Two groups: one mixed, one all wrong whose form differs; worked out by hand from Eq. 11 to 13."""
    correct = torch.tensor([True, False, False, False])
    form = torch.tensor([1.0, 1.0, 1.0, 0.0])
    rewards = 0.1 * correct.double() + 0.9 * form.double()
    ids = ["a", "a", "b", "b"]
    w = (1.0 + 0.9 + 0.9 + 0.0) / 4
    base = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    factor = torch.tensor([1 / math.sqrt(0.5)] * 2 + [1.0] * 2, dtype=torch.float64)
    expected = base * factor * (w / 2 + (1 - w) / 2)
    torch.testing.assert_close(a_grae_advantages(rewards, ids, alpha=0.5, correct_B=correct), expected)
    suppressed = a_grae_advantages(rewards, ids, alpha=1.0, correct_B=correct)
    torch.testing.assert_close(suppressed, expected.where(expected < 0, expected * w))


def test_rewards_for_form_are_weighed_as_the_recipe_says():
    correct, scores = torch.tensor([True, True, False, False]), torch.tensor([2.0, 1.0, 1.0, 0.0])
    groups = Groups.of(torch.zeros(4))
    for reward, expected in (
        ("accuracy_format", [2.0, 1.0, 1.0, 0.0]),
        ("accuracy_10_format_90", [1.0, 0.1, 0.9, 0.0]),
        ("accuracy_90_format_10", [1.0, 0.9, 0.1, 0.0]),
    ):
        recipe = Recipe("x", reward=reward)  # type: ignore[arg-type]
        shaped = shaped_rewards(recipe, scores, correct, torch.ones(4), groups, max_length=9)
        torch.testing.assert_close(shaped, torch.tensor(expected, dtype=torch.float64))
    with pytest.raises(ValueError, match="at most 1 for format"):
        shaped_rewards(recipe, scores + 1, correct, torch.ones(4), groups, max_length=9)


def strip_batch(rows: int = 23, tokens: int = 9, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """Log-probs (infinite at padding), advantages and mask; one response has no token."""
    chance = torch.Generator().manual_seed(1)
    log_probs = -torch.rand(rows, tokens, generator=chance, dtype=torch.float64).square() * 5
    lengths = torch.randint(1, tokens + 1, (rows,), generator=chance)
    lengths[3] = 0
    mask = (torch.arange(tokens) < lengths[:, None]).to(dtype)
    advantages = torch.randn(rows, generator=chance, dtype=torch.float64)
    return log_probs.to(dtype).masked_fill(mask == 0, -torch.inf), advantages.to(dtype), mask


def plain_cw(log_probs: Tensor, advantages: Tensor, mask: Tensor, ids: list[int]) -> Tensor:
    weights = torch.zeros_like(log_probs)
    for group in set(ids):
        rows = torch.tensor([place for place, id in enumerate(ids) if id == group])
        valid = mask[rows] > 0
        of_tokens = advantages[rows].unsqueeze(-1).expand_as(log_probs[rows])[valid]
        of_group = log_probs[rows][valid]
        if not len(of_group):
            continue
        cov = (of_group - of_group.mean()) * (of_tokens - of_tokens.mean())
        found = torch.exp(-cov.square() / (2 * cov.var(correction=0)))
        part = torch.zeros_like(log_probs[rows])
        part[valid] = found / found.mean()
        weights[rows] = part
    return weights


@pytest.mark.parametrize("strip", [1, 20, 10**6])
def test_cw_weights_are_those_of_the_formula(strip, monkeypatch):
    monkeypatch.setattr(covariance, "_STRIP", strip)
    log_probs, advantages, mask = strip_batch()
    ids = [place * 7 % 4 for place in range(len(mask))]
    found = cw_grpo_weights(log_probs, advantages, mask, groups=ids)
    torch.testing.assert_close(found, plain_cw(log_probs, advantages, mask, ids))
    whole = cw_grpo_weights(log_probs, advantages, mask)
    torch.testing.assert_close(whole, plain_cw(log_probs, advantages, mask, [0] * len(mask)))
    with pytest.raises(ValueError, match="one per response"):
        cw_grpo_weights(log_probs, advantages.unsqueeze(-1).expand_as(mask), mask, groups=ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("advantage", [0.1, -0.7, 1 / 3, 1e6, 1e-12])
def test_equal_advantages_weigh_1_whatever_they_are(dtype, advantage):
    log_probs, _, mask = strip_batch(rows=2_000, dtype=dtype)
    same = torch.full((len(mask),), advantage, dtype=dtype)
    assert torch.equal(cw_grpo_weights(log_probs, same, mask), mask)
    assert torch.equal(cw_grpo_weights(log_probs, same, mask, groups=[row % 3 for row in range(2_000)]), mask)


def test_weights_that_all_vanish_become_1_in_their_pool_alone():
    # c is 1 to a part in a hundred: w = exp(-c^2 / (2 sigma^2)) is below the smallest number.
    log_probs = torch.tensor([[-1.0, -1.01], [-3.0, -3.01], [-1.0, -2.0], [-1.5, -2.5]])
    advantages, mask = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.ones(4, 2)
    found = cw_grpo_weights(log_probs, advantages, mask, groups=[0, 0, 1, 1])
    assert torch.isfinite(found).all()
    assert torch.equal(found[:2], torch.ones(2, 2))
    alone = cw_grpo_weights(log_probs[2:], advantages[2:], mask[2:])
    assert torch.equal(found[2:], alone)
    assert alone.std() > 0.01
