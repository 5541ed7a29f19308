"""REINFORCE leave-one-out."""

from typing import Any

from trainer_adapter.methods.groups import Formula, Groups, Ids, Tensor, rewards_tensor


def rloo_advantages(rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper") -> Tensor:
    """Return A_i = R_i - mean of the other rewards of the group, shape B, float64 (arXiv 2402.14740).

    A group of one has no others: 0 in `paper` and in verl's vectorised version, R in verl's loop (`repo`).
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    size_B = groups.spread(groups.size_G).to(rewards_B.dtype)
    advantages_B = groups.centred(rewards_B) * size_B / (size_B - 1).clamp(min=1)
    return advantages_B.where(size_B > 1, rewards_B) if formula == "repo" else advantages_B
