"""GRPO and its relatives: the distance of a reward from the mean of its group."""

from typing import Any

from trainer_adapter.methods.groups import Formula, Groups, Ids, Tensor, rewards_tensor

REPO_EPSILON = 1e-6  # verl's value, added to the standard deviation


def grpo_advantages(
    rewards: Any,
    group_ids: Ids | Groups,
    *,
    formula: Formula = "paper",
    ddof: int | None = None,
    epsilon: float | None = None,
    norm_by_std: bool = True,
) -> Tensor:
    """Return A = (R - mean) / (std + epsilon) over each group, shape B, float64.

    With the (N+1)G responses to a question and its neighbors as the group, this is the joint advantage of
    TA-GRPO (arXiv 2601.22478, Eq. 3). With the G responses to one prompt it is GRPO (arXiv 2402.03300), and
    without the standard deviation Dr.GRPO (arXiv 2503.20783).

    Args:
        formula: `paper`: ddof 0, epsilon 0; a group whose rewards are all equal, a single response included,
            gets 0. `repo` (verl 0.9.1): ddof 1, epsilon 1e-6; a single response keeps R / (1 + epsilon), or R
            without the deviation.
        ddof: Degrees of freedom subtracted from the group's size; by default the formula's.
        epsilon: Added to the standard deviation; by default the formula's.
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    repo = formula == "repo"
    ddof = (1 if repo else 0) if ddof is None else ddof
    epsilon = (REPO_EPSILON if repo else 0.0) if epsilon is None else epsilon
    centred_B = groups.centred(rewards_B)
    if repo:
        centred_B = centred_B.where(groups.spread(groups.size_G) > 1, rewards_B)
    if not norm_by_std:
        return centred_B
    std_G = groups.std_of_centred(groups.centred(rewards_B) if repo else centred_B, ddof=ddof)
    if repo:
        std_G = std_G.where(groups.size_G > 1, 1.0)
    divisor_B = groups.spread(std_G + epsilon)
    return (centred_B / divisor_B).where(divisor_B > 0, 0.0)


def dr_grpo_advantages(rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper") -> Tensor:
    """Return A = R - mean over each group, shape B, float64 (Dr.GRPO, arXiv 2503.20783)."""
    return grpo_advantages(rewards, group_ids, formula=formula, norm_by_std=False)
