"""MaxRL: the reward above the group's mean, in units of that mean."""

from typing import Any

from trainer_adapter.methods.groups import Groups, Ids, Tensor, rewards_tensor


def max_rl_advantages(rewards: Any, group_ids: Ids | Groups) -> Tensor:
    """Return A = (R - mean) / mean over each group, shape B, float64; 0 if the mean is 0.

    Its expected gradient is that of the log of the success rate, truncated at the group's size (arXiv
    2602.02710): questions with few correct responses weigh more than in Dr.GRPO.
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    if (rewards_B < 0).any():
        raise ValueError("MaxRL divides by the group's mean reward, so rewards must be 0 or more")
    mean_B = groups.spread(groups.mean(rewards_B))
    return (groups.centred(rewards_B) / mean_B).where(mean_B > 0, 0.0)
