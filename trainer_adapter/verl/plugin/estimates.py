"""From the correctness of a step's responses to the advantage of every token: pure functions of tensors."""

from typing import Any, NamedTuple

import torch

from trainer_adapter.methods.advantages import ADVANTAGES, lead_rewards
from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.methods.token_weights import (
    choose_clipped,
    clip_cov_candidates,
    cw_weights,
    cw_weights_repo,
)


class Estimates(NamedTuple):
    """Shaped rewards, advantages of responses (float64) and of tokens, and token weights (None: all 1)."""

    rewards_B: Tensor
    advantages_B: Tensor
    advantages_BT: Tensor
    weights_BT: Tensor | None


def estimate(
    recipe: Recipe,
    scores_B: Tensor,
    correct_B: Tensor,
    mask_BT: Tensor,
    old_log_probs_BT: Tensor,
    group_B: Tensor,
    *,
    max_length: int,
    overlong_buffer: int | None = None,
    generator: torch.Generator | None = None,
) -> Estimates:
    """Return what `recipe` makes of a step's responses; all of the step at once, padding rows left out.

    Args:
        scores_B: the reward function's scores; recipes with another reward axis than binary shape them.
        correct_B: whether each answer is right.
        mask_BT: 1 at the tokens of a response.
        old_log_probs_BT: log-probs before the update, which the token weights look at.
        group_B: the group of each response.
        max_length: the most tokens a response may have.
        overlong_buffer: see `RunSettings`.
        generator: draws the tokens that Clip-Cov leaves out.

    Raises:
        ValueError: what the formulas refuse.
    """
    groups = Groups.of(group_B)
    rewards_B = shaped_rewards(
        recipe, scores_B, correct_B, mask_BT.sum(-1), groups, max_length=max_length, buffer=overlong_buffer
    )
    advantages_B = ADVANTAGES[recipe.advantage](rewards_B, groups, **_options(recipe))
    weights_BT = token_weights(recipe, advantages_B, mask_BT, old_log_probs_BT, groups, generator)
    # In the log-probs' precision: in float64 the whole step would be twice as large for nothing.
    advantages_BT = advantages_B.to(old_log_probs_BT.dtype).unsqueeze(-1) * mask_BT
    if weights_BT is not None:
        advantages_BT.mul_(weights_BT)
    return Estimates(rewards_B, advantages_B, advantages_BT, weights_BT)


def shaped_rewards(
    recipe: Recipe,
    scores_B: Tensor,
    correct_B: Tensor,
    lengths_B: Tensor,
    groups: Groups,
    *,
    max_length: int,
    buffer: int | None = None,
) -> Tensor:
    """Return the rewards of the recipe's reward axis, shape B, float64."""
    if recipe.reward == "grpo_lead":
        return lead_rewards(correct_B, lengths_B, groups, variant=recipe.variant)
    scores_B = scores_B.to(torch.float64)
    if recipe.reward == "overlong":
        # It stands beside the grader, which no process but the reward workers needs.
        from trainer_adapter.verl.reward import overlong_penalty

        return scores_B + overlong_penalty(lengths_B, max_length, buffer or max(1, max_length // 5))
    return scores_B


def token_weights(
    recipe: Recipe,
    advantages_B: Tensor,
    mask_BT: Tensor,
    old_log_probs_BT: Tensor,
    groups: Groups,
    generator: torch.Generator | None = None,
) -> Tensor | None:
    """Return the weight of each token, shape BT; None where the recipe has none.

    CW-GRPO's sums run over a group. Clip-Cov's run over the whole step and look at the log-probs before the
    update, where the public code looks at each micro-batch anew; a token left out has the weight 0.
    """
    if recipe.weights == "none":
        return None
    if recipe.weights == "cw_grpo":
        if recipe.variant == "repo":
            return cw_weights_repo(old_log_probs_BT, advantages_B, mask_BT)
        return cw_weights(old_log_probs_BT, advantages_B, mask_BT, pools=groups)
    candidates = clip_cov_candidates(
        old_log_probs_BT,
        advantages_B,
        mask_BT,
        old_log_prob_BT=old_log_probs_BT,
        variant=recipe.variant,
        clip_low=recipe.loss.clip_low,
        clip_high=recipe.loss.clip_high,
    )
    return (mask_BT > 0).logical_and_(~choose_clipped(candidates, generator)).to(old_log_probs_BT.dtype)


def _options(recipe: Recipe) -> dict[str, Any]:
    if recipe.advantage == "w_reinforce":
        return {}
    if recipe.advantage in ("a_grae", "a_grae_sample", "a_grae_group", "dr_grpo_a_grae"):
        return {"variant": recipe.variant, "alpha": recipe.alpha}
    if recipe.advantage in ("positive_dominant", "negative_dominant", "hard_focused", "easy_focused"):
        return {"ddof": 1 if recipe.variant == "repo" else 0}
    return {"variant": recipe.variant}
