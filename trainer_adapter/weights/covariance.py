"""The covariance of log-prob and advantage on every token, on which CW-GRPO and Clip-Cov rest.

A step has thousands of responses of thousands of tokens. Everything here goes over them in strips of rows
that fit into a processor's cache, and holds no tensor of shape BT beside what it returns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from trainer_adapter.groups import Groups, Ids, Tensor

_STRIP = 1 << 19
"""Elements of a strip: 2 MB in float32."""


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
    covariance = Covariance.of(log_prob_BT, advantages_BT, mask_BT, pools)
    filled_BT = torch.empty_like(covariance.log_prob_BT)
    for rows in strips(filled_BT):
        filled_BT[rows] = covariance.strip(rows)
    return filled_BT


@dataclass(frozen=True)
class Covariance:
    """What the covariance of a token is computed from, strip by strip.

    `pools` tells the pool of each response, `tokens_B` counts its tokens; the means are those of its pool.
    """

    log_prob_BT: Tensor
    advantages: Tensor
    mask_BT: Tensor
    pools: Groups
    tokens_B: Tensor
    log_prob_mean_B: Tensor
    advantage_mean_B: Tensor

    @classmethod
    def of(
        cls, log_prob_BT: Tensor, advantages: Tensor, mask_BT: Tensor, pools: Ids | Groups | None
    ) -> "Covariance":
        """Take the means; an advantage of shape B is that of all tokens of a response."""
        log_prob_BT, advantages = log_prob_BT.detach(), advantages.detach()
        if advantages.dim() == log_prob_BT.dim() - 1:
            advantages = advantages.unsqueeze(-1)
        advantages = advantages.to(log_prob_BT.dtype)
        rows, device = len(log_prob_BT), log_prob_BT.device
        of_one = torch.zeros(rows, dtype=torch.long, device=device)
        groups = Groups.of(of_one if pools is None else pools, device=device)
        tokens_B, log_probs_B, advantages_B = torch.empty(3, rows, dtype=torch.float64, device=device)
        for strip in strips(log_prob_BT):
            valid = mask_BT[strip] > 0
            tokens_B[strip] = valid.sum(-1)
            log_probs_B[strip] = row_sums(log_prob_BT[strip].where(valid, 0.0))
            if advantages.shape[-1] == 1:
                advantages_B[strip] = advantages[strip, 0] * tokens_B[strip]
            else:
                advantages_B[strip] = row_sums(advantages[strip].where(valid, 0.0))
        means = [pool_mean(sums_B, tokens_B, groups) for sums_B in (log_probs_B, advantages_B)]
        return cls(log_prob_BT, advantages, mask_BT, groups, tokens_B, *means)

    def strip(self, rows: slice) -> Tensor:
        """Return the covariance of the tokens of some responses, 0 at padding."""
        log_prob, advantages = self.log_prob_BT[rows], self.advantages[rows]
        means = (
            mean_B[rows].to(log_prob.dtype).unsqueeze(-1)
            for mean_B in (self.log_prob_mean_B, self.advantage_mean_B)
        )
        found = log_prob - next(means)
        found *= advantages - next(means)
        # Padding may hold anything, infinities included.
        return found.masked_fill_(self.mask_BT[rows] <= 0, 0.0)


def strips(values_BT: Tensor) -> Iterator[slice]:
    """Yield the rows of a tensor in parts of about `_STRIP` elements."""
    rows = max(1, _STRIP // max(1, values_BT.shape[-1]))
    for start in range(0, len(values_BT), rows):
        yield slice(start, start + rows)


def row_sums(values: Tensor) -> Tensor:
    """Return the sum of each row in float64, so that the mean of equal values is that value."""
    return values.sum(-1, dtype=torch.float64)


def pool_mean(sums_B: Tensor, tokens_B: Tensor, pools: Groups) -> Tensor:
    """Return for each response the mean over the tokens of its pool; 0 where the pool has none."""
    return pools.spread(pools.sum(sums_B) / pools.sum(tokens_B).clamp(min=1))
