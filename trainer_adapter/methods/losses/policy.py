"""The clipped surrogate on every token."""

from typing import NamedTuple

import torch

from trainer_adapter.methods.groups import Tensor


class Surrogate(NamedTuple):
    """Loss and importance ratio of each token, and the tokens clipped by the bounds and by dual clip."""

    loss_BT: Tensor
    ratio_BT: Tensor
    clipped_BT: Tensor
    dual_clipped_BT: Tensor


def clipped_surrogate(
    log_prob_BT: Tensor,
    old_log_prob_BT: Tensor,
    advantages_BT: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Surrogate:
    """Return -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) on every token (PPO; arXiv 2601.22478, Eq. 4).

    r = exp(log_prob - old_log_prob). With the question as anchor, both are conditioned on the original
    question, regardless of the sampled prompt. Unequal bounds are DAPO's clip-higher (arXiv 2503.14476). A
    dual clip c > 1 bounds the loss of negative advantages by -c A (arXiv 1912.09729; verl's default is 3).
    """
    if clip_low < 0 or clip_high < 0:
        raise ValueError(f"clip bounds are {clip_low} and {clip_high}, but must be at least 0")
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual clip is {dual_clip}, but must be above 1 or none")
    if advantages_BT.dim() == log_prob_BT.dim() - 1:
        advantages_BT = advantages_BT.unsqueeze(-1)
    # As in verl: beyond 20 the ratio is clipped anyway, and exp would overflow in half precision.
    ratio_BT = torch.exp((log_prob_BT - old_log_prob_BT).clamp(-20.0, 20.0))
    plain_BT = -advantages_BT * ratio_BT
    bounded_BT = -advantages_BT * ratio_BT.clamp(1 - clip_low, 1 + clip_high)
    loss_BT = torch.maximum(plain_BT, bounded_BT)
    clipped_BT = bounded_BT > plain_BT
    dual_BT = torch.zeros_like(clipped_BT)
    if dual_clip is not None:
        ceiling_BT = -advantages_BT * dual_clip
        negative_BT = (advantages_BT < 0).expand_as(loss_BT)
        dual_BT = negative_BT & (loss_BT > ceiling_BT)
        loss_BT = torch.minimum(loss_BT, ceiling_BT.expand_as(loss_BT)).where(negative_BT, loss_BT)
    return Surrogate(loss_BT, ratio_BT, clipped_BT, dual_BT)
