"""W-REINFORCE: positive and negative sample reinforcement without a baseline (arXiv 2506.01347)."""

from typing import Any, Literal

import torch

from trainer_adapter.methods.groups import Tensor

LAMBDA = 0.1


def w_reinforce_advantages(
    rewards: Any,
    group_ids: object = None,
    *,
    weight: float = LAMBDA,
    part: Literal["weighted", "positive", "negative"] = "weighted",
) -> Tensor:
    """Return the coefficient of each response, shape B, float64: `weight` if correct, -1 if wrong.

    L = lambda L_PSR + L_NSR. `part` positive (PSR) gives 1 and 0, negative (NSR) 0 and -1. A response is
    correct if its reward is above 0. `group_ids` are not used. A batch without correct or without wrong
    responses lacks that part (the public code gives NaN for one of its variants).
    """
    rewards_B = torch.as_tensor(rewards).to(torch.float64)
    if rewards_B.dim() != 1 or not torch.isfinite(rewards_B).all():
        raise ValueError("W-REINFORCE needs one finite reward per response")
    values = {"weighted": (weight, -1.0), "positive": (1.0, 0.0), "negative": (0.0, -1.0)}
    if part not in values:
        raise ValueError(f"part is {part!r}. Choose one of {', '.join(values)}")
    correct, wrong = values[part]
    return torch.full_like(rewards_B, wrong).masked_fill(rewards_B > 0, correct)
