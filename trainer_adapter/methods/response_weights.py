"""Weights of responses to neighbors that are trained on the question, by anchor."""

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.recipes import AnchorAxis

WEIGHING: tuple[AnchorAxis, ...] = ("tapered", "dropped")
"""Anchors on the question that weight responses; the others leave all weights at 1."""


def anchor_weights(
    anchor: AnchorAxis, advantages_B: Tensor, foreign_B: Tensor, log_ratio_B: Tensor | None
) -> Tensor | None:
    """Return the weight of each response under `anchor`, shape B, float64; None if all are 1.

    Responses to the question itself and those with a positive advantage weigh 1. For a neighbor's response o
    with an advantage of 0 or less, let rho = pi_old(o | question) / pi_old(o | neighbor). Its weight is
    min(1, rho) with anchor `tapered` (the rule of TOPR, arXiv 2503.14286) and 0 with `dropped`. Without it, a
    response that the policy would never give to the question could be pushed down there without bound.

    A weight multiplies the advantage. The clipped surrogate is homogeneous in it, w L(A) = L(w A) for w >= 0,
    and a constant of the gradient.

    Args:
        advantages_B: of the group, before any weight.
        foreign_B: whether the response was drawn for another prompt than the one it is trained on.
        log_ratio_B: log rho, summed over the tokens of the response; needed by tapered only.
    """
    if anchor not in WEIGHING:
        return None
    spared_B = ~foreign_B | (advantages_B > 0)
    if anchor == "dropped":
        return spared_B.double()
    if log_ratio_B is None:
        raise ValueError("anchor tapered needs the sampling log-probs, but the rollout engine returned none")
    return log_ratio_B.double().clamp(max=0.0).exp().where(~spared_B, 1.0)
