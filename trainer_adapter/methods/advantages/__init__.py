"""Advantages of responses: pure functions of rewards and groups, one file an estimator, in float64."""

from collections.abc import Callable
from functools import partial

from trainer_adapter.methods.advantages.a_grae import (
    a_grae_advantages,
    easy_focused_advantages,
    hard_focused_advantages,
    negative_dominant_advantages,
    positive_dominant_advantages,
)
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.grpo_lead import lead_advantages, lead_rewards
from trainer_adapter.methods.advantages.rloo import rloo_advantages
from trainer_adapter.methods.advantages.w_reinforce import w_reinforce_advantages
from trainer_adapter.methods.groups import Tensor

ADVANTAGES: dict[str, Callable[..., Tensor]] = {
    "grpo": grpo_advantages,
    "dr_grpo": partial(grpo_advantages, norm_by_std=False),
    "rloo": rloo_advantages,
    "a_grae": a_grae_advantages,
    "a_grae_sample": partial(a_grae_advantages, suppression=False),
    "a_grae_group": partial(a_grae_advantages, difficulty=False),
    "dr_grpo_a_grae": partial(a_grae_advantages, norm_by_std=False),
    "positive_dominant": positive_dominant_advantages,
    "negative_dominant": negative_dominant_advantages,
    "hard_focused": hard_focused_advantages,
    "easy_focused": easy_focused_advantages,
    "grpo_lead": lead_advantages,
    "w_reinforce": w_reinforce_advantages,
}
"""By name: f(rewards, group_ids, ...) -> shape B."""

__all__ = [
    "ADVANTAGES",
    "a_grae_advantages",
    "easy_focused_advantages",
    "grpo_advantages",
    "hard_focused_advantages",
    "lead_advantages",
    "lead_rewards",
    "negative_dominant_advantages",
    "positive_dominant_advantages",
    "rloo_advantages",
    "w_reinforce_advantages",
]
