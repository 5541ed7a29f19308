"""CW-GRPO: tokens of extreme covariance weigh less (arXiv 2605.11538)."""

import torch

from trainer_adapter.groups import Groups, Ids, Tensor
from trainer_adapter.weights.covariance import pool_mean, token_covariance

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
    mask_BT = mask_BT.to(log_prob_BT.dtype)
    cov_BT = token_covariance(log_prob_BT, advantages_BT, mask_BT, pools)
    valid_BT = mask_BT > 0
    centred_BT = (cov_BT - pool_mean(cov_BT, mask_BT, pools)).where(valid_BT, 0.0)
    variance = _pool_variance(centred_BT, mask_BT, pools, ddof)
    exponent_BT = (cov_BT.square() / (2 * variance)).where(variance > 0, 0.0)
    weights_BT = torch.exp(-exponent_BT) * mask_BT
    return (weights_BT / pool_mean(weights_BT, mask_BT, pools)).where(valid_BT, 0.0)


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


def _pool_variance(centred_BT: Tensor, mask_BT: Tensor, pools: Ids | Groups | None, ddof: int) -> Tensor:
    squares_BT = centred_BT.square()
    if pools is None:
        return squares_BT.sum() / (mask_BT.sum() - ddof).clamp(min=1)
    groups = Groups.of(pools, device=squares_BT.device)
    degrees_G = (groups.sum(mask_BT.sum(-1)) - ddof).clamp(min=1)
    return groups.spread(groups.sum(squares_BT.sum(-1)) / degrees_G).unsqueeze(-1)
