"""The covariance of log-prob and advantage on every token, on which CW-GRPO and Clip-Cov rest."""

from trainer_adapter.groups import Groups, Ids, Tensor


def token_covariance(
    log_prob_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, pools: Ids | Groups | None = None
) -> Tensor:
    """Return (log pi - mean log pi)(A - mean A) on every token, 0 at padding (arXiv 2505.22617; 2605.11538).

    Means are over all tokens of a pool, so a long response counts more in the mean of A than a short one.

    Args:
        log_prob_BT: Log-probs, taken as constants.
        advantages_BT: Advantage of each token, or of each response (shape B).
        mask_BT: 1 at the tokens of a response, 0 at padding.
        pools: What the means run over; default: the whole batch, else the pool of each response.
    """
    log_prob_BT = log_prob_BT.detach()
    mask_BT = mask_BT.to(log_prob_BT.dtype)
    advantages_BT = on_tokens(advantages_BT, log_prob_BT)
    means = [
        pool_mean(values.where(mask_BT > 0, 0.0), mask_BT, pools) for values in (log_prob_BT, advantages_BT)
    ]
    centred = [values - mean for values, mean in zip((log_prob_BT, advantages_BT), means, strict=True)]
    return (centred[0] * centred[1]).where(mask_BT > 0, 0.0)


def pool_mean(values_BT: Tensor, mask_BT: Tensor, pools: Ids | Groups | None) -> Tensor:
    """Return the mean over the tokens of each response's pool, to be subtracted from shape BT.

    Values at padding must be 0. A pool without a token has the mean 0.
    """
    if pools is None:
        return values_BT.sum() / mask_BT.sum().clamp(min=1)
    groups = Groups.of(pools, device=values_BT.device)
    sums_G = groups.sum(values_BT.sum(-1))
    return groups.spread(sums_G / groups.sum(mask_BT.sum(-1)).clamp(min=1)).unsqueeze(-1)


def on_tokens(advantages: Tensor, like_BT: Tensor) -> Tensor:
    """Return advantages of responses or tokens as shape BT."""
    if advantages.dim() == like_BT.dim() - 1:
        advantages = advantages.unsqueeze(-1)
    return advantages.to(like_BT.dtype).expand_as(like_BT)
