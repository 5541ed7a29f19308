"""Reward shaping by recipe: the input of advantages, never of filters."""

import torch

from trainer_adapter.methods.advantages.grpo_lead import lead_rewards
from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.recipes import FORMAT_REWARDS, Recipe


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
    """Return the rewards of the recipe's reward axis, shape B, float64.

    Args:
        scores_B: of the reward function: for rewards that include format, 1 for a correct answer and 1 for
            format.
        buffer: DAPO's L_cache; None uses a fifth of `max_length`.
    """
    if recipe.reward == "grpo_lead":
        return lead_rewards(correct_B, lengths_B, groups)
    scores_B = scores_B.to(torch.float64)
    if recipe.reward == "overlong":  # DAPO's rule gives 1 and -1, and the penalty is as large as that
        return 2 * scores_B - 1 + overlong_penalty(lengths_B, max_length, buffer or max(1, max_length // 5))
    if recipe.reward in FORMAT_REWARDS:
        of_answer, of_form = FORMAT_REWARDS[recipe.reward]
        form_B = scores_B - correct_B.double()
        if ((form_B < 0) | (form_B > 1)).any():
            raise ValueError(f"reward {recipe.reward} needs 1 for a correct answer and at most 1 for format")
        return of_answer * correct_B.double() + of_form * form_B
    return scores_B


def overlong_penalty(lengths: Tensor, max_length: int, cache: int) -> Tensor:
    """Return DAPO's soft overlong penalty of each response, float64, same shape (arXiv 2503.14476, Eq. 13).

    0 up to max_length - cache tokens, then falling linearly to -1 at max_length, and -1 beyond. It is added
    to the reward, never to the correctness that filters use.
    """
    if not 1 <= cache <= max_length:
        raise ValueError(f"the overlong buffer has {cache} tokens. Give 1 to {max_length}")
    return ((max_length - cache - lengths.double()) / cache).clamp(-1.0, 0.0)
