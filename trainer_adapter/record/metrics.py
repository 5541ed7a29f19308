"""Metrics of a training step, from its batch alone; docs/reference/metrics.md explains each name.

Suffixes: B responses, T tokens, N valid tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.token_weights.covariance import Covariance, Strip, row_sums, strips
from trainer_adapter.record.step_batch import StepBatch

PREFIX = "tagrpo/"
TOP_SHARES: tuple[float, ...] = (0.0001, 0.01, 0.2, 0.4, 1.0)
"""Shares of the tokens of one sign whose covariance is shown (arXiv 2605.11538, Table 1)."""

TokenSums: TypeAlias = Mapping[str, Tensor]
"""By name, a value of each response: shape B, float64."""

_STARTS = {"weights_least": math.inf, "weights_most": -math.inf}


def step_metrics(batch: StepBatch) -> dict[str, float]:
    """Return the metrics of a step, before the policy is updated; names begin with `tagrpo/`.

    What a batch cannot say is left out (no neighbors, no reference policy, no sampling log-probs, no token
    at all), so that no value is ever NaN.
    """
    if not len(batch):
        return {}
    in_strips = strips(batch.mask_BT)
    sums = token_sums(batch, in_strips)
    parts = (
        _sizes(batch),
        _zero_gradient(batch),
        _rewards(batch),
        _advantages(batch),
        _weights(batch, sums),
        _covariances(batch, in_strips),
        _anchor(batch, sums),
        _correction(batch, sums),
        _engine(batch, sums),
        _response_weights(batch),
        _rescue(batch),
        # KL(pi_old || reference) is estimated on the anchor.
        *(
            _token_means(batch, sums[name], title)
            for name, title in (("entropy", "entropy"), ("k1", "kl/k1"), ("k3", "kl/k3"))
            if name in sums
        ),
    )
    return {PREFIX + name: value for part in parts for name, value in part.items() if np.isfinite(value)}


def equal_shares(correct_B: Tensor, groups: Groups) -> dict[str, float]:
    """Return the share of groups that are all right, all wrong, and the sum of both ("share").

    Such a group has no gradient: every advantage in it is 0. A group of one response is one of them.
    """
    right_G = groups.mean(correct_B.double())
    all_right, all_wrong = ((right_G == value).double().mean().item() for value in (1.0, 0.0))
    return {"all_right": all_right, "all_wrong": all_wrong, "share": all_right + all_wrong}


def tails(values_N: npt.NDArray[np.floating]) -> dict[str, float]:
    """Return what the largest positive and the most negative values are, exactly; sorts `values_N` in place.

    For each sign that occurs: `share`, its part of all values; for each of `TOP_SHARES`, of the values of the
    sign furthest from 0, at least one: `at_PERCENT`, the one of them nearest to 0, and `top_PERCENT`, their
    mean.
    """
    values_N.sort()
    zero = values_N.dtype.type(0)  # of any other type, and numpy would search in a copy
    below, above = np.searchsorted(values_N, zero, "left"), np.searchsorted(values_N, zero, "right")
    metrics = {}
    # Either begins with the value furthest from 0.
    for name, signed in (("positive", values_N[above:][::-1]), ("negative", values_N[:below])):
        if not signed.size:
            continue
        metrics[f"{name}/share"] = signed.size / values_N.size
        for share in TOP_SHARES:
            count, percent = max(1, round(share * signed.size)), f"{100 * share:g}"
            metrics[f"{name}/at_{percent}"] = float(signed[count - 1])
            metrics[f"{name}/top_{percent}"] = float(signed[:count].mean(dtype=np.float64))
    return metrics


def effective_share(log_weights: Tensor) -> float:
    """Return the effective sample size over the number of weights, (sum w)^2 / (n sum w^2), 1/n to 1."""
    twice = 2 * torch.logsumexp(log_weights.double(), 0) - torch.logsumexp(2 * log_weights.double(), 0)
    return float(torch.exp(twice) / len(log_weights))


def _sizes(batch: StepBatch) -> dict[str, float]:
    tokens_B = batch.tokens_B.double()
    metrics = {
        "batch/responses": float(len(batch)),
        "batch/questions": float(len(torch.unique(batch.question_B))),
        "batch/prompts": float(len(torch.unique(_prompts(batch)))),
        "batch/groups": float(len(torch.unique(batch.group_B))),
        "tokens/total": tokens_B.sum().item(),
        "tokens/mean": tokens_B.mean().item(),
        "tokens/max": tokens_B.max().item(),
        "tokens/prompt_mean": batch.prompt_tokens_B.double().mean().item(),
        "tokens/truncated_share": batch.truncated_B.double().mean().item(),
        "grader/unknown": batch.unknown_B.double().sum().item(),
        "grader/unknown_share": batch.unknown_B.double().mean().item(),
    }
    for name, chosen_B in (("right", batch.correct_B), ("wrong", ~batch.correct_B)):
        if chosen_B.any():
            metrics[f"tokens/{name}_mean"] = tokens_B[chosen_B].mean().item()
    return metrics


def _zero_gradient(batch: StepBatch) -> dict[str, float]:
    neighbor_B = batch.variant_B > 0
    everything_B = torch.ones_like(neighbor_B)
    prompts_B = _prompts(batch)
    kinds = [
        ("original", ~neighbor_B, batch.question_B),
        ("neighbor", neighbor_B, prompts_B),
        ("neighbors", neighbor_B, batch.question_B),
        ("joint", everything_B, batch.question_B),
        ("group", everything_B, batch.group_B),
    ]
    return {
        f"zero/{kind}/{name}": value
        for kind, chosen_B, ids_B in kinds
        if chosen_B.any()
        for name, value in equal_shares(batch.correct_B[chosen_B], Groups.of(ids_B[chosen_B])).items()
    }


def _rewards(batch: StepBatch) -> dict[str, float]:
    metrics = {}
    for name, chosen_B in _parts(batch):
        metrics[f"reward/{name}"] = batch.rewards_B[chosen_B].double().mean().item()
        metrics[f"correct/{name}"] = batch.correct_B[chosen_B].double().mean().item()
    return metrics


def _advantages(batch: StepBatch) -> dict[str, float]:
    advantages_B = batch.advantages_B.double()
    metrics = {"advantage/zero_share": (advantages_B == 0).double().mean().item()}
    for name, chosen_B in (("positive", advantages_B > 0), ("negative", advantages_B < 0)):
        metrics[f"advantage/{name}_share"] = chosen_B.double().mean().item()
        if chosen_B.any():
            metrics[f"advantage/{name}_mean"] = advantages_B[chosen_B].mean().item()
    return metrics


def _weights(batch: StepBatch, sums: TokenSums) -> dict[str, float]:
    tokens = batch.tokens_B.sum().item()
    if batch.weights_BT is None or not tokens:
        return {}
    mean, square = (sums[name].sum().item() / tokens for name in ("weights", "weights_square"))
    return {
        "weights/least": sums["weights_least"].min().item(),
        "weights/most": sums["weights_most"].max().item(),
        "weights/std": max(square - mean**2, 0.0) ** 0.5,
        "weights/zero_share": sums["weights_zero"].sum().item() / tokens,
    }


def _covariances(batch: StepBatch, parts: Sequence[Strip]) -> dict[str, float]:
    """Of log pi_old and the advantage of the response, over all tokens of the batch."""
    covariance = Covariance.of(batch.old_log_probs_BT, batch.advantages_B, batch.mask_BT, None, parts)
    tokens = int(covariance.tokens_B.sum())
    if not tokens:
        return {}
    values_N, filled = np.empty(tokens, dtype=np.float32), 0
    for strip in covariance.strips:
        values, padding = covariance.on(strip)
        valid = values.numpy()[~padding.numpy()]
        values_N[filled : filled + len(valid)] = valid
        filled += len(valid)
    metrics = {"mean": float(values_N.mean(dtype=np.float64)), **tails(values_N)}
    return {f"covariance/{name}": value for name, value in metrics.items()}


def _anchor(batch: StepBatch, sums: TokenSums) -> dict[str, float]:
    """How far the anchor's log-probs are from those the tokens were drawn with."""
    if "log_ratio" not in sums:
        return {}
    ratio_B, first_B, second_B = (sums[name] for name in ("log_ratio", "ratio", "ratio_square"))
    lengths_B = batch.tokens_B
    metrics = _token_means(batch, ratio_B, "anchor/log_ratio_token")
    for name, chosen_B in _parts(batch):
        kept_B = chosen_B & (lengths_B > 0)
        if kept_B.any():
            metrics[f"anchor/log_ratio/{name}"] = ratio_B[kept_B].mean().item()
            metrics[f"anchor/ess/{name}"] = effective_share(ratio_B[kept_B])
            metrics[f"anchor/ess_token/{name}"] = _effective(
                first_B[kept_B], second_B[kept_B], lengths_B[kept_B]
            )
    return metrics


def _correction(batch: StepBatch, sums: TokenSums) -> dict[str, float]:
    if "correction" not in sums:
        return {}
    first_B, second_B, lengths_B = sums["correction"], sums["correction_square"], batch.tokens_B
    metrics = _token_means(batch, first_B, "correction/mean")
    for name, chosen_B in _parts(batch):
        if second_B[chosen_B].sum() > 0:
            metrics[f"correction/ess/{name}"] = _effective(
                first_B[chosen_B], second_B[chosen_B], lengths_B[chosen_B]
            )
    return metrics


def _engine(batch: StepBatch, sums: TokenSums) -> dict[str, float]:
    """How far engine and trainer are apart on the prompts that were asked, and the weights for it."""
    metrics = {}
    if "engine_k3" in sums and batch.compared_B is not None:
        tokens = batch.tokens_B[batch.compared_B].sum().item()
        if tokens:
            for name in ("gap", "k3"):
                metrics[f"engine/{name}"] = sums[f"engine_{name}"][batch.compared_B].sum().item() / tokens
    if "engine" in sums and sums["engine_square"].sum() > 0:
        first_B, second_B, lengths_B = sums["engine"], sums["engine_square"], batch.tokens_B
        metrics["engine/weight"] = (first_B.sum() / lengths_B.sum()).item()
        metrics["engine/ess"] = _effective(first_B, second_B, lengths_B)
    return metrics


def _response_weights(batch: StepBatch) -> dict[str, float]:
    """Of the responses that an anchor may weigh: those of neighbors with an advantage of 0 or less."""
    if batch.response_weights_B is None:
        return {}
    weighed_B = (batch.variant_B > 0) & (batch.advantages_B < 0)
    if not weighed_B.any():
        return {}
    weights_B = batch.response_weights_B[weighed_B].double()
    return {
        "response_weights/mean": weights_B.mean().item(),
        "response_weights/full_share": (weights_B >= 1).double().mean().item(),
        "response_weights/ess": (weights_B.sum() ** 2 / (len(weights_B) * (weights_B**2).sum())).item(),
    }


def _rescue(batch: StepBatch) -> dict[str, float]:
    """Of questions whose second half of responses was drawn for their neighbors."""
    if batch.first_stage_B is None:
        return {}
    groups = Groups.of(batch.question_B)
    asked_G = groups.sum(((batch.variant_B > 0) & ~batch.first_stage_B).double()) > 0
    right_G = groups.sum((batch.correct_B & ~batch.first_stage_B).double()) > 0
    first_right_G = groups.sum((batch.correct_B & batch.first_stage_B).double()) > 0
    metrics = {
        "rescue/dead_share": (~first_right_G).double().mean().item(),
        "rescue/asked_share": asked_G.double().mean().item(),
        "rescue/responses_share": (batch.variant_B > 0).double().mean().item(),
    }
    if asked_G.any():
        metrics["rescue/revived_share"] = right_G[asked_G].double().mean().item()
    return metrics


def _effective(first_B: Tensor, second_B: Tensor, lengths_B: Tensor) -> float:
    """Return the effective share of token weights, given their sums and those of their squares by row."""
    return float(first_B.sum() ** 2 / (second_B.sum() * lengths_B.sum()))


def _token_means(batch: StepBatch, sums_B: Tensor, name: str) -> dict[str, float]:
    lengths_B = batch.tokens_B
    return {
        f"{name}/{part}": (sums_B[chosen_B].sum() / lengths_B[chosen_B].sum()).item()
        for part, chosen_B in _parts(batch)
        if lengths_B[chosen_B].sum() > 0
    }


def _parts(batch: StepBatch) -> Iterator[tuple[str, Tensor]]:
    """Yield all responses, those to questions, those to neighbors, and those to each neighbor by place."""
    yield "mean", torch.ones_like(batch.variant_B, dtype=torch.bool)
    if not (batch.variant_B > 0).any():
        return
    if (batch.variant_B == 0).any():
        yield "original", batch.variant_B == 0
    yield "neighbors", batch.variant_B > 0
    for variant in torch.unique(batch.variant_B[batch.variant_B > 0]).tolist():
        yield f"variant_{variant}", batch.variant_B == variant


def _prompts(batch: StepBatch) -> Tensor:
    """Return a number for the prompt of each response."""
    return batch.question_B * (int(batch.variant_B.max()) + 1) + batch.variant_B


def token_sums(batch: StepBatch, parts: Sequence[Strip]) -> TokenSums:
    """Return the sums over the tokens of each response; what the batch has no values for is left out.

    entropy; log_ratio = log pi_old(o | anchor) - log pi(o | the prompt it was drawn for), ratio and
    ratio_square its exponential and the square of that; correction and correction_square; engine_gap and
    engine_k3 = |d| and exp(d) - d - 1 of trainer minus engine, engine and engine_square of its weights; k1
    and k3 against
    the reference policy; weights and weights_square; weights_zero counts weights of 0, weights_least and
    weights_most are the smallest and largest (inf and -inf for a response without tokens).

    Values of tokens are taken in the precision they have, k3 in float64, since it nearly cancels; sums are in
    float64. The batch is gone over once, in the given strips of its mask; nothing of its size is held.
    """
    sums: dict[str, Tensor] = {}
    for strip in parts:
        for name, values_B in _of_strip(batch, strip):
            if name not in sums:
                sums[name] = torch.full((len(batch),), _STARTS.get(name, 0.0), dtype=torch.float64)
            sums[name][strip.rows] = values_B.double()
    return sums


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
    if batch.engine_ratio_BT is not None:
        gap = take(batch.engine_ratio_BT).double()
        yield "engine_gap", row_sums(gap.abs())
        yield "engine_k3", row_sums(gap.exp() - gap - 1)
    if batch.engine_weights_BT is not None:
        engine = take(batch.engine_weights_BT)
        yield "engine", row_sums(engine)
        yield "engine_square", row_sums(engine.square_())
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
