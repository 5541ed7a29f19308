"""DGPO: updates of equal size for all questions, then more weight for hard ones (arXiv 2601.20614)."""

from typing import Any

import torch

from trainer_adapter.methods.groups import Groups, Ids, Tensor, rewards_tensor


def dgpo_advantages(
    rewards: Any,
    group_ids: Ids | Groups,
    *,
    temperature: float = 2.0,
    correct_B: Tensor | None = None,
    lengths_B: Tensor | None = None,
) -> Tensor:
    """Return DGPO's advantages with question weights, shape B, float64; 0 in groups of equal rewards.

    With the mean absolute deviation MAD of a group's rewards, p its share of correct responses, and V groups
    whose rewards differ:

        A = w (R - mean) / MAD,   w = V exp(-p/temperature) / sum of exp(-p/temperature) over the V groups.

    The sum of |A| / w is the size of the group, whatever p is. Pass the whole batch at once, since w compares
    its groups.

    Args:
        temperature: Above 0; the smaller, the more hard questions weigh.
        correct_B: Whether each answer is correct, for p; default: a reward above 0. A group whose rewards
            differ although none is correct has the least weight, as in the public code.
        lengths_B: Tokens of each response. They scale A by all tokens over those of the V groups, so that a
            mean over all tokens becomes the paper's mean over these.
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}, but must be above 0")
    centred_B = groups.centred(rewards_B)
    deviation_G = groups.mean(centred_B.abs())
    taught_G = deviation_G > 0
    rate_G = groups.mean((rewards_B > 0 if correct_B is None else correct_B).double())
    hardness_G = -rate_G.where(rate_G > 0, 1.0) / temperature
    weight_G = torch.softmax(hardness_G.masked_fill(~taught_G, -torch.inf), 0) * taught_G.sum()
    if lengths_B is not None:
        tokens_G = groups.sum(lengths_B.double())
        weight_G = weight_G * tokens_G.sum() / tokens_G[taught_G].sum()
    factor_G = (weight_G / deviation_G).where(taught_G, 0.0)
    return centred_B * groups.spread(factor_G)
