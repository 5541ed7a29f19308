"""Token weights, taken in strips of rows: equal to the plain formulas whatever the strips and the padding."""

import pytest
import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.token_weights import covariance
from trainer_adapter.methods.token_weights.cw_grpo import cw_grpo_weights


def batch(rows: int = 23, tokens: int = 9, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
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
def test_cw_weights_are_those_of_the_formula(strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "_STRIP", strip)
    log_probs, advantages, mask = batch()
    ids = [place * 7 % 4 for place in range(len(mask))]
    found = cw_grpo_weights(log_probs, advantages, mask, groups=ids)
    torch.testing.assert_close(found, plain_cw(log_probs, advantages, mask, ids))
    whole = cw_grpo_weights(log_probs, advantages, mask)
    torch.testing.assert_close(whole, plain_cw(log_probs, advantages, mask, [0] * len(mask)))
    with pytest.raises(ValueError, match="one per response"):
        cw_grpo_weights(log_probs, advantages.unsqueeze(-1).expand_as(mask), mask, groups=ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("advantage", [0.1, -0.7, 1 / 3, 1e6, 1e-12])
def test_equal_advantages_weigh_1_whatever_they_are(dtype: torch.dtype, advantage: float) -> None:
    log_probs, _, mask = batch(rows=2_000, dtype=dtype)
    same = torch.full((len(mask),), advantage, dtype=dtype)
    assert torch.equal(cw_grpo_weights(log_probs, same, mask), mask)
    assert torch.equal(cw_grpo_weights(log_probs, same, mask, groups=[row % 3 for row in range(2_000)]), mask)


def test_weights_that_all_vanish_become_1_in_their_pool_alone() -> None:
    # c is 1 to a part in a hundred: w = exp(-c^2 / (2 sigma^2)) is below the smallest number.
    log_probs = torch.tensor([[-1.0, -1.01], [-3.0, -3.01], [-1.0, -2.0], [-1.5, -2.5]])
    advantages, mask = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.ones(4, 2)
    found = cw_grpo_weights(log_probs, advantages, mask, groups=[0, 0, 1, 1])
    assert torch.isfinite(found).all()
    assert torch.equal(found[:2], torch.ones(2, 2))
    alone = cw_grpo_weights(log_probs[2:], advantages[2:], mask[2:])
    assert torch.equal(found[2:], alone)
    assert alone.std() > 0.01
