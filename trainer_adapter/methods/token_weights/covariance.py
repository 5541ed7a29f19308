"""The covariance of log-prob and advantage on every token, the basis of CW-GRPO and Clip-Cov.

Strips of responses of similar length fit into a processor's cache, so that little padding is read. The only
tensor of shape BT is the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from trainer_adapter.methods.groups import Groups, Ids, Tensor

_STRIP = 1 << 18
"""Elements of a strip: 1 MB in float32."""


@dataclass(frozen=True)
class Strip:
    """Some responses of similar length, and the width that holds all their tokens."""

    rows: Tensor
    width: int

    def take(self, values_BT: Tensor) -> Tensor:
        """Return a copy of the values of these responses, cut to the width."""
        return values_BT[:, : self.width].index_select(0, self.rows)

    def put(self, values: Tensor, into_BT: Tensor) -> None:
        """Write the values of these responses; columns beyond the width stay unchanged."""
        into_BT[:, : self.width].index_copy_(0, self.rows, values)


def strips(mask_BT: Tensor) -> tuple[Strip, ...]:
    """Return all responses that have tokens, longest first, in parts of about `_STRIP` elements."""
    ends_B = _ends(mask_BT)
    order = torch.argsort(ends_B, descending=True, stable=True)[: int((ends_B > 0).sum())]
    widths = ends_B[order].tolist()
    parts, start = [], 0
    while start < len(widths):
        stop = start + max(1, _STRIP // widths[start])
        parts.append(Strip(order[start:stop], widths[start]))
        start = stop
    return tuple(parts)


def _ends(mask_BT: Tensor) -> Tensor:
    """Return the position after the last token of each response; the mask may have holes."""
    rows, tokens = mask_BT.shape
    ends_B = torch.zeros(rows, dtype=torch.long, device=mask_BT.device)
    if not tokens:
        return ends_B
    places = torch.arange(1, tokens + 1, dtype=torch.int32, device=mask_BT.device)
    for part in _row_slices(rows, tokens):
        ends_B[part] = ((mask_BT[part] > 0) * places).amax(-1).long()
    return ends_B


def _row_slices(rows: int, tokens: int) -> Iterator[slice]:
    step = max(1, _STRIP // max(1, tokens))
    for start in range(0, rows, step):
        yield slice(start, start + step)


@dataclass(frozen=True)
class Covariance:
    """Inputs of a token's covariance, strip by strip.

    `pools` is the pool of each response, `tokens_B` counts its tokens. The means are those of its pool, and
    `rounding_B` is the `rounding` of advantages about theirs.
    """

    log_prob_BT: Tensor
    advantages: Tensor
    mask_BT: Tensor
    strips: Sequence[Strip]
    pools: Groups
    tokens_B: Tensor
    log_prob_mean_B: Tensor
    advantage_mean_B: Tensor
    rounding_B: Tensor

    @classmethod
    def of(
        cls,
        log_prob_BT: Tensor,
        advantages: Tensor,
        mask_BT: Tensor,
        pools: Ids | Groups | None,
        parts: Sequence[Strip] | None = None,
    ) -> "Covariance":
        """Compute the means; an advantage of shape B applies to all tokens of a response.

        `parts` are the strips of the mask, if already known.
        """
        log_prob_BT, advantages = log_prob_BT.detach(), advantages.detach()
        if advantages.dim() == log_prob_BT.dim() - 1:
            advantages = advantages.unsqueeze(-1)
        rows, device = len(log_prob_BT), log_prob_BT.device
        of_one = torch.zeros(rows, dtype=torch.long, device=device)
        groups = Groups.of(of_one if pools is None else pools, device=device)
        tokens_B, log_probs_B, advantages_B, sizes_B = torch.zeros(
            4, rows, dtype=torch.float64, device=device
        )
        parts = strips(mask_BT) if parts is None else parts
        for strip in parts:
            padding = strip.take(mask_BT) <= 0
            tokens_B[strip.rows] = strip.width - padding.sum(-1).double()
            log_probs_B[strip.rows] = row_sums(strip.take(log_prob_BT).masked_fill_(padding, 0.0))
            if advantages.shape[-1] > 1:
                of_tokens = strip.take(advantages).masked_fill_(padding, 0.0)
                advantages_B[strip.rows] = row_sums(of_tokens)
                sizes_B[strip.rows] = row_sums(of_tokens.abs_())
        if advantages.shape[-1] == 1:
            advantages_B = advantages[:, 0].double() * tokens_B
            sizes_B = advantages_B.abs()
        return cls(
            log_prob_BT,
            advantages,
            mask_BT,
            parts,
            groups,
            tokens_B,
            pool_mean(log_probs_B, tokens_B, groups),
            pool_mean(advantages_B, tokens_B, groups),
            rounding(sizes_B, tokens_B, groups, advantages.dtype),
        )

    def on(self, strip: Strip) -> tuple[Tensor, Tensor]:
        """Return the covariance of some responses' tokens, 0 at padding, and which tokens are padding."""
        covariance = strip.take(self.log_prob_BT)
        log_prob_mean, advantage_mean, noise = (
            of_row_B[strip.rows].unsqueeze(-1)
            for of_row_B in (self.log_prob_mean_B, self.advantage_mean_B, self.rounding_B)
        )
        covariance -= log_prob_mean.to(covariance.dtype)
        apart = strip.take(self.advantages) - advantage_mean
        covariance *= apart.masked_fill_(apart.abs() <= noise, 0.0).to(covariance.dtype)
        # Padding may contain anything, including infinities.
        padding = strip.take(self.mask_BT) <= 0
        return covariance.masked_fill_(padding, 0.0), padding


def row_sums(values: Tensor) -> Tensor:
    """Return the sum of each row in float64, so that the mean of equal values is that value."""
    return values.sum(-1, dtype=torch.float64)


def pool_mean(sums_B: Tensor, tokens_B: Tensor, pools: Groups) -> Tensor:
    """Return for each response the mean over the tokens of its pool; 0 for a pool without tokens."""
    return pools.spread(pools.sum(sums_B) / pools.sum(tokens_B).clamp(min=1))


def rounding(sizes_B: Tensor, tokens_B: Tensor, pools: Groups, dtype: torch.dtype) -> Tensor:
    """Return for each response how far rounding alone may move a value from the mean of its pool."""
    rows_B = pools.spread(pools.sum(torch.ones_like(tokens_B)))
    relative_B = 4 * torch.finfo(dtype).eps + rows_B * torch.finfo(torch.float64).eps
    return relative_B * pool_mean(sizes_B, tokens_B, pools)
