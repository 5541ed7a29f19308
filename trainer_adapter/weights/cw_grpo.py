"""CW-GRPO: tokens of extreme covariance weigh less (arXiv 2605.11538)."""

import torch

from trainer_adapter.groups import Groups, Ids, Tensor
from trainer_adapter.weights.covariance import Covariance, pool_mean, row_sums, strips

REPO_EPSILON = 1e-8


def cw_weights(
    log_prob_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    pools: Ids | Groups | None = None,
    ddof: int = 0,
) -> Tensor:
    """Return the weight of each token, of mean 1 over the tokens of a pool, 0 at padding; a constant.

    c = (log pi - mean log pi)(A - mean A), w = exp(-c^2 / (2 sigma^2)) with sigma the standard deviation of
    c, then w N / sum w over the N tokens of the pool. Where sigma is 0 all weights are 1.

    Args:
        log_prob_BT: Log-probs before the update.
        advantages_BT: Advantage of each token, or of each response (shape B).
        mask_BT: 1 at the tokens of a response, 0 at padding.
        pools: The group of each response (the paper's sums run over one group); default: the whole batch.
        ddof: Degrees taken off the number of tokens in sigma.
    """
    covariance = Covariance.of(log_prob_BT, advantages_BT, mask_BT, pools)
    groups, tokens_B = covariance.pools, covariance.tokens_B
    weights_BT = torch.empty_like(covariance.log_prob_BT)
    sums_B = torch.empty_like(tokens_B)
    for rows in strips(weights_BT):
        weights_BT[rows] = covariance.strip(rows)
        sums_B[rows] = row_sums(weights_BT[rows])
    mean_B = pool_mean(sums_B, tokens_B, groups)
    for rows in strips(weights_BT):
        centred = weights_BT[rows] - mean_B[rows].to(weights_BT.dtype).unsqueeze(-1)
        sums_B[rows] = row_sums(centred.square_().masked_fill_(mask_BT[rows] <= 0, 0.0))
    degrees_G = (groups.sum(tokens_B) - ddof).clamp(min=1)
    variance_B = groups.spread(groups.sum(sums_B) / degrees_G)
    # Where the variance is 0 every covariance is the same, and so is every weight.
    slope_B = (-0.5 / variance_B).clamp(min=torch.finfo(weights_BT.dtype).min)
    slope_B = slope_B.where(variance_B > 0, 0.0).to(weights_BT.dtype)
    for rows in strips(weights_BT):
        part = weights_BT[rows].square_().mul_(slope_B[rows].unsqueeze(-1)).exp_()
        sums_B[rows] = row_sums(part.masked_fill_(mask_BT[rows] <= 0, 0.0))
    scale_B = 1 / pool_mean(sums_B, tokens_B, groups)
    scale_B = scale_B.where(tokens_B > 0, 0.0).to(weights_BT.dtype)
    for rows in strips(weights_BT):
        weights_BT[rows] *= scale_B[rows].unsqueeze(-1)
    return weights_BT


def cw_weights_repo(log_prob_BT: Tensor, advantages_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the weights as the released code computes them, shape BT: not constants, their gradient flows.

    Log-probs are centred over each response, advantages over the responses of the batch; sigma is over its
    tokens; the weights are of mean 1 over all B x T places, padding included, so that they grow with padding.
    """
    mask_BT = mask_BT.to(log_prob_BT.dtype)
    lengths_B1 = mask_BT.sum(-1, keepdim=True) + REPO_EPSILON
    centred_BT = log_prob_BT - (log_prob_BT * mask_BT).sum(-1, keepdim=True) / lengths_B1
    cov_BT = centred_BT * (advantages_B - advantages_B.mean()).unsqueeze(-1) * mask_BT
    sigma = cov_BT[mask_BT > 0].std(unbiased=False) + REPO_EPSILON
    weights_BT = torch.exp(-cov_BT.square() / (2 * sigma.square())) * mask_BT
    return weights_BT * mask_BT.numel() / weights_BT.sum()
