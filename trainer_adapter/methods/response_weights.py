"""Weights of responses to neighbors that are trained on the question: what an anchor makes of a mismatch."""

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.recipes import AnchorAxis

WEIGHING: tuple[AnchorAxis, ...] = ("tapered", "dropped")
"""Anchors on the question that weigh responses; the others leave them all at 1."""


def anchor_weights(
    anchor: AnchorAxis, advantages_B: Tensor, foreign_B: Tensor, log_ratio_B: Tensor | None
) -> Tensor | None:
    """Return the weight of each response under `anchor`, shape B, float64; None where all are 1.

    Responses to the question itself and those with a positive advantage weigh 1. A neighbor's response o with
    an advantage of 0 or less weighs min(1, rho), rho = pi_old(o | question) / pi_old(o | neighbor), with
    anchor `tapered` (the rule of TOPR, arXiv 2503.14286), and 0 with `dropped`: what the policy would never
    have said to the question must not be pushed down there without bound.

    A weight multiplies the advantage. The clipped surrogate is homogeneous in it, w L(A) = L(w A) for
    w >= 0, and a constant of the gradient.

    Args:
        advantages_B: of the group, before any weight.
        foreign_B: whether the response was drawn for another prompt than the one it is trained on.
        log_ratio_B: log rho, summed over the tokens of the response; tapered alone needs it.

    Raises:
        ValueError: anchor tapered without the log-probs that responses were drawn with.
    """
    if anchor not in WEIGHING:
        return None
    spared_B = ~foreign_B | (advantages_B > 0)
    if anchor == "dropped":
        return spared_B.double()
    if log_ratio_B is None:
        raise ValueError("anchor tapered needs the sampling log-probs, but the rollout engine returned none")
    return log_ratio_B.double().clamp(max=0.0).exp().where(~spared_B, 1.0)
