"""Pass@k Training: the advantage of a response in the groups of k that it can be part of."""

from typing import Any

from trainer_adapter.methods.groups import Groups, Ids, Tensor, rewards_tensor


def pass_k_advantages(rewards: Any, group_ids: Ids | Groups, *, k: int = 4) -> Tensor:
    """Return Pass@k Training's advantages in closed form, shape B, float64 (arXiv 2508.10751).

    Every set of k responses of a group has the reward 1 if one of them is correct, else 0. The advantage of a
    set is its reward minus the mean over all sets, in units of their deviation; that of a response is the
    mean over the sets with it. It is 0 if every set has the same reward, as in groups with fewer than k wrong
    responses. With k = 1 it is GRPO's.
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    if ((rewards_B != 0) & (rewards_B != 1)).any():
        raise ValueError("Pass@k Training is defined for rewards of 0 and 1")
    size_G, wrong_G = groups.size_G.double(), groups.sum(1 - rewards_B)
    wrong_rest_G = (wrong_G > 0).double()  # chance that k - 1 others of a wrong response are wrong
    for drawn in range(1, k):
        wrong_rest_G = wrong_rest_G * (wrong_G - drawn).clamp(min=0) / (size_G - drawn).clamp(min=1)
    fails_G = wrong_G / size_G * wrong_rest_G
    std_G = (fails_G * (1 - fails_G)).sqrt()
    above_B = groups.spread(fails_G) - groups.spread(wrong_rest_G).where(rewards_B == 0, 0.0)
    std_B = groups.spread(std_G)
    return (above_B / std_B).where(std_B > 0, 0.0)
