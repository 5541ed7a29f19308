"""A-GRAE: difficulty-adaptive and asymmetric advantages (arXiv 2602.05548), and its control experiments."""

from typing import Any

from trainer_adapter.methods.advantages.grpo import REPO_EPSILON, grpo_advantages
from trainer_adapter.methods.groups import Formula, Groups, Ids, Tensor, rewards_tensor

ALPHA = 1.0  # on MATH; 0.5 in the paper's multimodal experiments


def a_grae_advantages(
    rewards: Any,
    group_ids: Ids | Groups,
    *,
    formula: Formula = "paper",
    alpha: float = ALPHA,
    norm_by_std: bool = True,
    difficulty: bool = True,
    suppression: bool = True,
    correct_B: Tensor | None = None,
) -> Tensor:
    """Return A-GRAE's advantages, shape B, float64 (Eq. 11 to 13).

    With p the success rate of a group and w the mean reward of the batch:

        A = w/2 (R-mean)/(std sqrt(p)) + (1-w)/2 (R-mean)/(std sqrt(1-p)),   A * min(1, w/alpha) where A > 0.

    Groups with p of 0 or 1 get 0 with binary rewards. If rewards include format and differ, such groups are
    not rescaled (half of (R-mean)/std), as the paper says of Eq. 12. Pass the whole batch at once, since w is
    its mean.

    Args:
        rewards: Rewards in {0, 1}, shape B; in [0, 1] if they include format.
        formula: `repo` (the released code): ddof 1; the easy term is divided by 1 - sqrt(p) instead of
            sqrt(1-p); w is the mean of the groups' means, in which a single response counts 0; alpha is 1.
        alpha: Batch mean at which the suppression of positive advantages ends.
        norm_by_std: False for Dr.GRPO as the base.
        difficulty: Whether to weight hard and easy groups (DDAS); False leaves (R-mean)/std.
        suppression: Whether to attenuate positive advantages (ASS).
        correct_B: Whether each answer is correct, for p; default: derived from the rewards.
    """
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    if ((rewards_B < 0) | (rewards_B > 1)).any():
        raise ValueError("A-GRAE is defined for rewards in [0, 1]")
    if alpha <= 0:
        raise ValueError(f"alpha is {alpha}, but must be above 0")
    repo = formula == "repo"
    base_B = grpo_advantages(rewards_B, groups, formula=formula, norm_by_std=norm_by_std)
    reward_G = groups.mean(rewards_B)
    rate_G = reward_G if correct_B is None else groups.mean(correct_B.to(rewards_B.dtype))
    if repo:
        reward_G, rate_G = (each.where(groups.size_G > 1, 0.0) for each in (reward_G, rate_G))
    weight = reward_G.mean() if repo else rewards_B.mean()
    advantages_B = base_B
    if difficulty:
        hard_B, easy_B = _rescaled(base_B, groups.spread(rate_G), repo=repo)
        advantages_B = weight * hard_B + (1 - weight) * easy_B
    if suppression:
        attenuated_B = advantages_B * (weight / (1.0 if repo else alpha)).clamp(max=1.0)
        advantages_B = attenuated_B.where(advantages_B > 0, advantages_B)
    return advantages_B


def a_grae_sample_advantages(
    rewards: Any,
    group_ids: Ids | Groups,
    *,
    formula: Formula = "paper",
    correct_B: Tensor | None = None,
) -> Tensor:
    """Return A-GRAE's advantages with difficulty weighting only (DDAS), shape B."""
    return a_grae_advantages(rewards, group_ids, formula=formula, suppression=False, correct_B=correct_B)


def a_grae_group_advantages(
    rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper", alpha: float = ALPHA
) -> Tensor:
    """Return A-GRAE's advantages with attenuated positive ones only (ASS), shape B."""
    return a_grae_advantages(rewards, group_ids, formula=formula, alpha=alpha, difficulty=False)


def dr_grpo_a_grae_advantages(
    rewards: Any,
    group_ids: Ids | Groups,
    *,
    formula: Formula = "paper",
    alpha: float = ALPHA,
    correct_B: Tensor | None = None,
) -> Tensor:
    """Return A-GRAE's advantages on Dr.GRPO, without dividing by the deviation, shape B (Table 2)."""
    return a_grae_advantages(
        rewards, group_ids, formula=formula, alpha=alpha, norm_by_std=False, correct_B=correct_B
    )


def hard_focused_advantages(rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper") -> Tensor:
    """Return A / (2 sqrt(p)), shape B: hard groups weigh more (Table 1; sum|A| = G sqrt(1-p))."""
    return _focused(rewards, group_ids, formula)[0]


def easy_focused_advantages(rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper") -> Tensor:
    """Return A / (2 sqrt(1-p)), shape B: easy groups weigh more (Table 1; sum|A| = G sqrt(p))."""
    return _focused(rewards, group_ids, formula)[1]


def positive_dominant_advantages(
    rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper", beta: float = 10.0
) -> Tensor:
    """Return GRPO's advantages, those above 0 multiplied by `beta`, shape B (Table 1)."""
    advantages_B = grpo_advantages(rewards, group_ids, ddof=_ddof(formula))
    return (advantages_B * beta).where(advantages_B > 0, advantages_B)


def negative_dominant_advantages(
    rewards: Any, group_ids: Ids | Groups, *, formula: Formula = "paper", beta: float = 10.0
) -> Tensor:
    """Return GRPO's advantages, those above 0 divided by `beta`, shape B (Table 1)."""
    return positive_dominant_advantages(rewards, group_ids, formula=formula, beta=1 / beta)


def _ddof(formula: Formula) -> int:
    """Return the ddof of the standard deviation; epsilon is 0 in all control experiments."""
    return 1 if formula == "repo" else 0


def _focused(rewards: Any, group_ids: Ids | Groups, formula: Formula) -> tuple[Tensor, Tensor]:
    rewards_B, groups = rewards_tensor(rewards, group_ids)
    base_B = grpo_advantages(rewards_B, groups, ddof=_ddof(formula))
    return _rescaled(base_B, groups.spread(groups.mean(rewards_B)), repo=False)


def _rescaled(base_B: Tensor, rate_B: Tensor, *, repo: bool) -> tuple[Tensor, Tensor]:
    """Return half the advantages over sqrt(p), and half of them over sqrt(1-p)."""
    hard_B, easy_B = rate_B.sqrt(), (1 - rate_B).sqrt()
    if repo:
        return base_B / 2 / (hard_B + REPO_EPSILON), base_B / 2 / (1 - hard_B + REPO_EPSILON)
    mixed_B = (rate_B > 0) & (rate_B < 1)
    return (base_B / 2 / hard_B).where(mixed_B, base_B / 2), (base_B / 2 / easy_B).where(mixed_B, base_B / 2)
