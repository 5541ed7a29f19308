"""Identities of the formulas, their degenerate cases, and their gradients."""

import math

import pytest
import torch

from trainer_adapter.methods.advantages.a_grae import (
    a_grae_advantages,
)
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.rloo import rloo_advantages
from trainer_adapter.methods.groups import Groups
from trainer_adapter.methods.losses.aggregation import aggregate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.methods.rewards import overlong_penalty, shaped_rewards
from trainer_adapter.methods.token_weights.cw_grpo import cw_grpo_weights


def test_a_group_of_one_has_no_advantage_unless_as_the_public_code_has_it() -> None:
    for paper in (grpo_advantages([1.0], ["q"]), rloo_advantages([1.0], ["q"])):
        assert paper.tolist() == [0.0]
    assert grpo_advantages([1.0], ["q"], formula="repo").tolist() == pytest.approx([1 / (1 + 1e-6)])
    assert rloo_advantages([1.0], ["q"], formula="repo").tolist() == [1.0]


def test_overlong_penalty_falls_from_0_to_minus_1() -> None:
    lengths = torch.tensor([0, 60, 80, 81, 90, 100, 101, 500])
    expected = [0, 0, 0, -0.05, -0.5, -1, -1, -1]
    assert overlong_penalty(lengths, 100, 20).tolist() == pytest.approx(expected)
    assert overlong_penalty(lengths, 100, 20).dtype == torch.float64
    with pytest.raises(ValueError, match="has 101 tokens"):
        overlong_penalty(lengths, 100, 101)
    with pytest.raises(ValueError, match="Give 1 to 100"):
        overlong_penalty(lengths, 100, 0)


def random_batch(seed: int, rows: int = 4, tokens: int = 6) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    log_prob, old = (
        -torch.rand(rows, tokens, dtype=torch.float64, generator=generator) * 2 for _ in range(2)
    )
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator)
    mask = (torch.arange(tokens) < lengths.unsqueeze(-1)).to(torch.float64)
    advantages = torch.randn(rows, dtype=torch.float64, generator=generator)
    return log_prob, old, mask, advantages


def test_padding_takes_no_part_whatever_it_holds() -> None:
    log_prob, old, mask, advantages = random_batch(5)
    spoiled = log_prob.masked_fill(mask == 0, float("nan"))
    for mode in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum"):
        clean = aggregate(clipped_surrogate(log_prob, old, advantages).loss_BT, mask, mode)
        assert aggregate(clipped_surrogate(spoiled, old, advantages).loss_BT, mask, mode) == clean
    assert torch.equal(
        cw_grpo_weights(spoiled, advantages, mask), cw_grpo_weights(log_prob, advantages, mask)
    )


def test_a_grae_takes_success_from_answers_where_form_is_rewarded_too() -> None:
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


def test_rewards_for_form_are_weighed_as_the_recipe_says() -> None:
    correct, scores = torch.tensor([True, True, False, False]), torch.tensor([2.0, 1.0, 1.0, 0.0])
    for reward, expected in (
        ("accuracy_format", [2.0, 1.0, 1.0, 0.0]),
        ("accuracy_10_format_90", [1.0, 0.1, 0.9, 0.0]),
        ("accuracy_90_format_10", [1.0, 0.9, 0.1, 0.0]),
    ):
        recipe = Recipe("x", reward=reward)  # type: ignore[arg-type]
        shaped = shaped_rewards(
            recipe, scores, correct, torch.ones(4), Groups.of(torch.zeros(4)), max_length=9
        )
        torch.testing.assert_close(shaped, torch.tensor(expected, dtype=torch.float64))
    with pytest.raises(ValueError, match="at most 1 for format"):
        shaped_rewards(recipe, scores + 1, correct, torch.ones(4), Groups.of(torch.zeros(4)), max_length=9)
