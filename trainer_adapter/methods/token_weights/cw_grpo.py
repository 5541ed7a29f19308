"""CW-GRPO: down-weight tokens of extreme covariance (arXiv 2605.11538)."""

import torch

from trainer_adapter.methods.groups import Groups, Ids, Tensor
from trainer_adapter.methods.token_weights.covariance import pool_mean, rounding, row_sums, strips

ROUNDING = 1e-14
"""Relative size below which a cancelling float64 sum counts as zero variance."""


def cw_grpo_weights(
    log_prob_BT: Tensor,
    advantages_B: Tensor,
    mask_BT: Tensor,
    *,
    groups: Ids | Groups | None = None,
) -> Tensor:
    """Return the weight of each token, with mean 1 over the tokens of a group, 0 at padding; a constant.

    c = (log pi - mean log pi)(A - mean A), w = exp(-c^2 / (2 sigma^2)) with sigma the standard deviation of
    c, then w N / sum w over the N tokens of the group. All weights are 1 if sigma is 0, or so much smaller
    than every c that all w vanish. Differences of equal values that come from rounding count as 0.
    """
    if advantages_B.shape != log_prob_BT.shape[:1]:
        raise ValueError(f"advantages have shape {tuple(advantages_B.shape)}. CW-GRPO needs one per response")
    dtype = advantages_B.dtype
    log_prob_BT, advantages_B = log_prob_BT.detach(), advantages_B.detach().double()
    rows, device = len(log_prob_BT), log_prob_BT.device
    of_one = torch.zeros(rows, dtype=torch.long, device=device)
    groups = Groups.of(of_one if groups is None else groups, device=device)
    tokens_B, sums_B, squares_B = torch.zeros(3, rows, dtype=torch.float64, device=device)
    parts = strips(mask_BT)
    for strip in parts:
        padding = strip.take(mask_BT) <= 0
        part = strip.take(log_prob_BT).masked_fill_(padding, 0.0)
        tokens_B[strip.rows] = strip.width - padding.sum(-1).double()
        sums_B[strip.rows] = row_sums(part)
        squares_B[strip.rows] = torch.linalg.vector_norm(part, dim=-1, dtype=torch.float64).square()
    mean_B = pool_mean(sums_B, tokens_B, groups)
    apart_B = advantages_B - pool_mean(advantages_B * tokens_B, tokens_B, groups)
    apart_B[apart_B.abs() <= rounding(advantages_B.abs() * tokens_B, tokens_B, groups, dtype)] = 0.0
    variance_B = _variance(tokens_B, sums_B, squares_B, mean_B, apart_B, groups)
    # If it is 0, every covariance is the same, and so is every weight.
    scale_B = (apart_B / (2 * variance_B).sqrt()).where(variance_B > 0, 0.0)
    most = torch.finfo(log_prob_BT.dtype).max
    scale_B = scale_B.clamp(-most, most).to(log_prob_BT.dtype)
    shift_B = mean_B.to(log_prob_BT.dtype)
    weights_BT = torch.zeros_like(log_prob_BT)
    for strip in parts:
        part = strip.take(log_prob_BT)
        part -= shift_B[strip.rows].unsqueeze(-1)
        part *= scale_B[strip.rows].unsqueeze(-1)
        part = part.square_().neg_().exp_().masked_fill_(strip.take(mask_BT) <= 0, 0.0)
        sums_B[strip.rows] = row_sums(part)
        strip.put(part, weights_BT)
    mean_B = pool_mean(sums_B, tokens_B, groups)
    vanished_B = (mean_B == 0) & (tokens_B > 0)
    if vanished_B.any():
        weights_BT[vanished_B] = (mask_BT[vanished_B] > 0).to(weights_BT.dtype)
    factor_B = (1 / mean_B).where(mean_B > 0, 1.0).to(weights_BT.dtype)
    return weights_BT.mul_(factor_B.unsqueeze(-1))


def _variance(
    tokens_B: Tensor,
    sums_B: Tensor,
    squares_B: Tensor,
    mean_B: Tensor,
    apart_B: Tensor,
    groups: Groups,
) -> Tensor:
    """Return for each response the variance of c over its group, from row sums; 0 below their rounding.

    c is (log pi - mean) times a constant of the row, so tokens need not be read again.
    """
    first_B = apart_B * (sums_B - tokens_B * mean_B)
    second_B = apart_B.square() * (squares_B - 2 * mean_B * sums_B + tokens_B * mean_B.square())
    count_G = groups.sum(tokens_B)
    about_mean_G = groups.sum(second_B) - groups.sum(first_B).square() / count_G.clamp(min=1)
    largest_G = groups.sum(apart_B.square() * (squares_B + tokens_B * mean_B.square()))
    about_mean_G = about_mean_G.where(about_mean_G > ROUNDING * largest_G, 0.0)
    return groups.spread(about_mean_G / count_G.clamp(min=1))
