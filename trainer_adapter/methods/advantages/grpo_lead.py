"""GRPO-LEAD: length-dependent rewards and advantages weighted by difficulty (arXiv 2504.09696)."""

from typing import Any

import torch

from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.groups import Formula, Groups, Ids, Tensor, rewards_tensor

ALPHA = 0.05  # strength of the preference for short responses
LOW, HIGH, MIDDLE, STEEPNESS = 0.4, 1.5, 0.75, 10.0
REPO_EPSILON = 1e-6
REPO_GATE = 4000.0  # tokens; the released code rewards length only above it


def lead_rewards(
    correct: Any, lengths: Any, group_ids: Ids | Groups, *, formula: Formula = "paper"
) -> Tensor:
    """Return exp(-ALPHA z) for correct responses and -1 for wrong ones, shape B, float64.

    z = (length - mean) / std over the correct responses of the group, 0 if all have the same length.

    Args:
        correct: Whether each response is correct (above 0), shape B.
        formula: `repo`: ddof 1 and epsilon 1e-6 on std; a group whose three shortest responses, wrong ones
            included, average no more than `REPO_GATE` tokens keeps 1 and -1.
    """
    correct_B, groups = rewards_tensor(correct, group_ids)
    lengths_B, _ = rewards_tensor(lengths, groups)
    right_B = correct_B > 0
    repo = formula == "repo"
    z_B = torch.zeros_like(lengths_B)
    if right_B.any():
        right = Groups.of(groups.index_B[right_B])
        lengths_R = lengths_B[right_B]
        std_R = right.spread(right.std(lengths_R, ddof=int(repo)))
        if repo:
            std_R = std_R.where(right.spread(right.size_G) > 1, 1.0) + REPO_EPSILON
        z_B[right_B] = (right.centred(lengths_R) / std_R).where(std_R > 0, 0.0)
    shaped_B = torch.exp(-ALPHA * z_B)
    if repo:
        shaped_B = shaped_B.where(groups.spread(_mean_of_shortest(lengths_B, groups, 3) > REPO_GATE), 1.0)
    return shaped_B.where(right_B, -1.0)


def grpo_lead_advantages(rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper") -> Tensor:
    """Return A w(rho) where A > 0 and A w(1-rho) elsewhere, shape B, float64.

    A is GRPO's advantage of the shaped rewards, rho the share of rewards above 0 in the group, and
    w(x) = LOW + (HIGH - LOW) / (1 + exp(STEEPNESS (x - MIDDLE))).
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    advantages_B = grpo_advantages(rewards_B, groups, formula=formula)
    share_B = groups.spread(groups.mean((rewards_B > 0).to(rewards_B.dtype)))
    difficulty_B = share_B.where(advantages_B > 0, 1 - share_B)
    weight_B = LOW + (HIGH - LOW) / (1 + torch.exp(STEEPNESS * (difficulty_B - MIDDLE)))
    return advantages_B * weight_B


def _mean_of_shortest(lengths_B: Tensor, groups: Groups, count: int) -> Tensor:
    """Return the mean length of the `count` shortest responses of each group, shape G."""
    order = torch.argsort(lengths_B, stable=True)
    order = order[torch.argsort(groups.index_B[order], stable=True)]
    starts_G = torch.cumsum(groups.size_G, 0) - groups.size_G
    rank = torch.empty_like(groups.index_B)
    rank[order] = torch.arange(len(order), device=order.device) - groups.spread(starts_G)[order]
    chosen_B = (rank < count).to(lengths_B.dtype)
    return groups.sum(lengths_B * chosen_B) / groups.sum(chosen_B)
