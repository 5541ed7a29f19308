"""Estimators of KL(policy || reference) on every token (J. Schulman, Approximating KL divergence, 2020)."""

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.recipes import KlEstimator


def kl_estimate(
    log_prob_BT: Tensor, ref_log_prob_BT: Tensor, kind: KlEstimator, *, straight_through: bool = False
) -> Tensor:
    """Return the estimate on every token, with d = log_prob - ref_log_prob:

    - `k1`: d. Unbiased, of either sign.
    - `abs`: |d|.
    - `k2`: d^2 / 2. Biased, but its gradient is that of the KL.
    - `k3`: exp(-d) + d - 1. Unbiased and never negative; GRPO's (arXiv 2402.03300, Eq. 4).
    - `low_var_kl`: k3 as in verl: d within 20, the estimate within 10 (beyond, its gradient is 0).

    `straight_through` keeps the value and takes the gradient of `k2` (verl's suffix `+`).
    """
    difference = log_prob_BT - ref_log_prob_BT
    if kind == "k1":
        value = difference
    elif kind == "abs":
        value = difference.abs()
    elif kind == "k2":
        value = difference.square() / 2
    elif kind == "k3":
        value = torch.expm1(-difference) + difference
    elif kind == "low_var_kl":
        bounded = difference.clamp(-20.0, 20.0)
        value = (torch.expm1(-bounded) + bounded).clamp(-10.0, 10.0)
    else:
        raise ValueError(f"unknown KL estimator {kind!r}")
    if not straight_through:
        return value
    slope = difference.square() / 2
    return slope - slope.detach() + value.detach()
