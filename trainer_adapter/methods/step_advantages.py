"""From the correctness of a step's responses to the advantage of every token, by recipe."""

from typing import NamedTuple

import torch

from service.own_code import is_own
from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.recipes import AnchorAxis, Recipe
from trainer_adapter.methods.registry import call, find_formula
from trainer_adapter.methods.rewards import shaped_rewards


class StepAdvantages(NamedTuple):
    """Shaped rewards, advantages of responses (float64) and of tokens, and weights (None: all 1).

    `advantages_B` is the formula's output; `advantages_BT` includes the weights of tokens and responses.
    """

    rewards_B: Tensor
    advantages_B: Tensor
    advantages_BT: Tensor
    weights_BT: Tensor | None
    response_weights_B: Tensor | None


def step_advantages(
    recipe: Recipe,
    scores_B: Tensor,
    correct_B: Tensor,
    mask_BT: Tensor,
    old_log_probs_BT: Tensor,
    group_B: Tensor,
    *,
    max_length: int,
    foreign_B: Tensor | None = None,
    log_ratio_B: Tensor | None = None,
    overlong_buffer: int | None = None,
    generator: torch.Generator | None = None,
) -> StepAdvantages:
    """Return the advantages of a whole step's responses under `recipe`, without padding rows.

    Args:
        scores_B: the reward function's scores; recipes with a non-binary reward axis shape them.
        mask_BT: 1 at the tokens of a response.
        old_log_probs_BT: log-probs before the update, used by the token weights.
        max_length: maximum tokens of a response.
        foreign_B: whether a response was drawn for another prompt than it is trained on; None for none.
        log_ratio_B: log of a response's probability on the anchor over that on its sampled prompt.
        overlong_buffer: with reward overlong, the last tokens in which the penalty grows.
        generator: draws the tokens that Clip-Cov leaves out.
    """
    groups, lengths_B = Groups.of(group_B), mask_BT.sum(-1)
    rewards_B = shaped_rewards(
        recipe, scores_B, correct_B, lengths_B, groups, max_length=max_length, buffer=overlong_buffer
    )
    advantages_B = call(
        find_formula("advantage", recipe.advantage),
        rewards_B,
        groups,
        correct_B=correct_B,
        lengths_B=lengths_B,
        **recipe.settings,
    )
    _check(f"advantage {recipe.advantage}", advantages_B, rewards_B.shape)
    weights_BT = None
    if recipe.weights != "none":
        weights_BT = call(
            find_formula("weights", recipe.weights),
            old_log_probs_BT,
            advantages_B,
            mask_BT,
            groups=groups,
            generator=generator,
            clip_low=recipe.loss.clip_low,
            clip_high=recipe.loss.clip_high,
        )
        _check(f"weights {recipe.weights}", weights_BT, mask_BT.shape, finite=is_own(recipe.weights))
    # In the log-probs' precision: float64 would double the size of the whole step without a benefit.
    advantages_BT = advantages_B.to(old_log_probs_BT.dtype).unsqueeze(-1) * mask_BT
    if weights_BT is not None:
        advantages_BT.mul_(weights_BT)
    response_weights_B = None
    if foreign_B is not None:
        response_weights_B = anchor_weights(recipe.anchor, advantages_B, foreign_B, log_ratio_B)
    if response_weights_B is not None:
        advantages_BT.mul_(response_weights_B.to(advantages_BT.dtype).unsqueeze(-1))
    return StepAdvantages(rewards_B, advantages_B, advantages_BT, weights_BT, response_weights_B)


def _check(name: str, values: Tensor, shape: torch.Size, *, finite: bool = True) -> None:
    """Raise unless a formula returned the required shape; `finite` inspects every value."""
    if not isinstance(values, torch.Tensor) or values.shape != shape:
        got = f"shape {tuple(values.shape)}" if isinstance(values, torch.Tensor) else type(values).__name__
        raise ValueError(f"{name}: returned {got}, but needs shape {tuple(shape)}")
    if finite and not torch.isfinite(values).all():
        raise ValueError(f"{name}: returned a value that is not finite")


def anchor_weights(
    anchor: AnchorAxis, advantages_B: Tensor, foreign_B: Tensor, log_ratio_B: Tensor | None
) -> Tensor | None:
    """Return the weight of each response under `anchor`, shape B, float64; None if all are 1.

    Responses to the question itself and those with a positive advantage weigh 1. For a neighbor's response o
    with an advantage of 0 or less, let rho = pi_old(o | question) / pi_old(o | neighbor). Its weight is
    min(1, rho) with anchor `tapered` (the rule of TOPR, arXiv 2503.14286) and 0 with `dropped`. Without it, a
    response that the policy would never give to the question could be pushed down there without bound.
    """
    if anchor not in ("tapered", "dropped"):
        return None
    spared_B = ~foreign_B | (advantages_B > 0)
    if anchor == "dropped":
        return spared_B.double()
    if log_ratio_B is None:
        raise ValueError("anchor tapered needs the sampling log-probs, but the rollout engine returned none")
    return log_ratio_B.double().clamp(max=0.0).exp().where(~spared_B, 1.0)
