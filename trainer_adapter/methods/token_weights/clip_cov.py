"""Clip-Cov: leave a few tokens of high covariance out of the update (arXiv 2505.22617)."""

import math
from typing import NamedTuple

import torch

from trainer_adapter.methods.groups import Formula, Tensor
from trainer_adapter.methods.token_weights.covariance import Covariance

RATIO, LOWER, UPPER = 2e-4, 1.0, 5.0


class Candidates(NamedTuple):
    """Tokens that may be clipped, and how many of them will be."""

    candidate_BT: Tensor
    wanted: int

    @property
    def clipped(self) -> int:
        """Number of clipped tokens: at most the number of candidates."""
        return min(self.wanted, int(self.candidate_BT.sum()))


def clip_cov_weights(
    log_prob_BT: Tensor,
    advantages_B: Tensor,
    mask_BT: Tensor,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the weight of each token, shape BT: 0 for clipped tokens, 1 for the others.

    The covariance is that of the whole step with the log-probs before the update; the public code computes it
    per micro-batch.
    """
    candidates = clip_cov_candidates(log_prob_BT, advantages_B, mask_BT)
    return (mask_BT > 0).logical_and_(~choose_clipped(candidates, generator)).to(log_prob_BT.dtype)


def clip_cov_candidates(
    log_prob_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    old_log_prob_BT: Tensor | None = None,
    formula: Formula = "paper",
    ratio: float = RATIO,
    lower: float = LOWER,
    upper: float = UPPER,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Candidates:
    """Return the tokens from which Clip-Cov chooses, and how many it chooses.

    The covariance is taken over all tokens of the batch.

    Args:
        advantages_BT: Advantage of each token, or of each response (shape B).
        old_log_prob_BT: Log-probs before the update; needed by `repo`.
        formula: `paper`: covariance in [lower, upper], floor(ratio N) tokens. `repo` (verl 0.9.1): in
            (lower, upper), excluding tokens that PPO's bounds clip, at least one token.
        ratio: Share of the tokens to clip.
        lower: Minimum covariance of a candidate.
        upper: Maximum covariance of a candidate.
        clip_low, clip_high: PPO's bounds, for `repo`.
    """
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio is {ratio}, but must be above 0 and at most 1")
    covariance = Covariance.of(log_prob_BT, advantages_BT, mask_BT, None)
    if formula == "repo" and old_log_prob_BT is None:
        raise ValueError("Clip-Cov's public code excludes tokens that PPO clips. Pass old_log_prob_BT")
    candidate_BT = torch.zeros_like(covariance.log_prob_BT, dtype=torch.bool)
    for strip in covariance.strips:
        cov, padding = covariance.on(strip)
        if old_log_prob_BT is None or formula == "paper":
            strip.put((cov >= lower) & (cov <= upper) & ~padding, candidate_BT)
            continue
        advantages = strip.take(covariance.advantages)
        ratio_of = torch.exp(strip.take(covariance.log_prob_BT) - strip.take(old_log_prob_BT.detach()))
        by_ppo = -advantages * ratio_of.clamp(1 - clip_low, 1 + clip_high) > -advantages * ratio_of
        strip.put((cov > lower) & (cov < upper) & ~by_ppo & ~padding, candidate_BT)
    wanted = math.floor(ratio * int(covariance.tokens_B.sum()))
    return Candidates(candidate_BT, wanted if formula == "paper" else max(wanted, 1))


def choose_clipped(candidates: Candidates, generator: torch.Generator | None = None) -> Tensor:
    """Return the clipped tokens, drawn uniformly from the candidates, as booleans of shape BT."""
    places = torch.nonzero(candidates.candidate_BT)
    device = places.device if generator is None else generator.device
    drawn = torch.randperm(len(places), generator=generator, device=device)[: candidates.clipped]
    clipped_BT = torch.zeros_like(candidates.candidate_BT)
    chosen = places[drawn.to(places.device)]
    clipped_BT[chosen[:, 0], chosen[:, 1]] = True
    return clipped_BT
