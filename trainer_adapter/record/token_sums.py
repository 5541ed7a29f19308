"""Sums over the tokens of each response of a step, of all that its metrics are made of.

Suffixes: B responses, T tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.token_weights.covariance import Strip, row_sums
from trainer_adapter.record.step_batch import StepBatch

TokenSums: TypeAlias = Mapping[str, Tensor]
"""By name, a value of each response: shape B, float64."""

_STARTS = {"weights_least": math.inf, "weights_most": -math.inf}


def token_sums(batch: StepBatch, parts: Sequence[Strip]) -> TokenSums:
    """Return the sums over the tokens of each response; what the batch has no values for is left out.

    entropy; log_ratio = log pi_old(o | anchor) - log pi(o | the prompt it was drawn for), ratio and
    ratio_square its exponential and the square of that; correction and correction_square; k1 and k3 against
    the reference policy; weights and weights_square; weights_zero counts weights of 0, weights_least and
    weights_most are the smallest and largest (inf and -inf for a response without tokens).

    Values of tokens are taken in the precision they have, k3 in float64, since it nearly cancels; sums are in
    float64. The batch is gone over once, in the given strips of its mask; nothing of its size is held.
    """
    found: dict[str, Tensor] = {}
    for strip in parts:
        for name, values_B in _of_strip(batch, strip):
            if name not in found:
                found[name] = torch.full((len(batch),), _STARTS.get(name, 0.0), dtype=torch.float64)
            found[name][strip.rows] = values_B.double()
    return found


def _of_strip(batch: StepBatch, strip: Strip) -> Iterator[tuple[str, Tensor]]:
    padding = strip.take(batch.mask_BT) <= 0

    def take(values_BT: Tensor, fill: float = 0.0) -> Tensor:
        # Padding may hold anything, infinities included.
        return strip.take(values_BT).masked_fill_(padding, fill)

    old = take(batch.old_log_probs_BT)
    if batch.entropies_BT is not None:
        yield "entropy", row_sums(take(batch.entropies_BT))
    if batch.sampling_log_probs_BT is not None:
        log_ratio = old - take(batch.sampling_log_probs_BT)
        yield "log_ratio", row_sums(log_ratio)
        ratio = log_ratio.exp_().masked_fill_(padding, 0.0)
        yield "ratio", row_sums(ratio)
        yield "ratio_square", row_sums(ratio.square_())
    if batch.correction_BT is not None:
        correction = take(batch.correction_BT)
        yield "correction", row_sums(correction)
        yield "correction_square", row_sums(correction.square_())
    if batch.ref_log_probs_BT is not None:
        exact, reference = old.double(), take(batch.ref_log_probs_BT).double()
        yield "k1", row_sums(kl_estimate(exact, reference, "k1"))
        yield "k3", row_sums(kl_estimate(exact, reference, "k3"))
    if batch.weights_BT is not None:
        yield from _of_weights(take(batch.weights_BT), padding)


def _of_weights(weights: Tensor, padding: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield "weights", row_sums(weights)
    yield "weights_zero", (weights == 0).sum(-1) - padding.sum(-1)
    yield "weights_least", weights.masked_fill(padding, math.inf).amin(-1)
    yield "weights_most", weights.masked_fill(padding, -math.inf).amax(-1)
    yield "weights_square", row_sums(weights.square())
