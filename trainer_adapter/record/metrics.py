"""Metrics of a training step, from its batch alone; docs/reference/metrics.md explains each name.

Suffixes: B responses, T tokens, N valid tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trainer_adapter.methods.groups import Groups, Tensor
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.token_weights.covariance import Covariance, Strip, row_sums, strips

PREFIX = "tagrpo/"
TOP_SHARES: tuple[float, ...] = (0.0001, 0.01, 0.2, 0.4, 1.0)
"""Shares of the tokens of one sign whose covariance is shown (arXiv 2605.11538, Table 1)."""


@dataclass(frozen=True)
class StepBatch:
    """The real responses of a step, in a fixed order (question, then session), on the CPU.

    Suffixes: B responses, T tokens of the longest response; values beyond the end of a response are 0.
    """

    step: int  # the global step, from 1
    question_B: Tensor  # number of the question's drawing in the step; a question may be drawn twice
    variant_B: Tensor  # 0 for the question's own prompt, k for its k-th neighbor's
    group_B: Tensor  # the group that the advantage is measured in; `question_B` for joint groups
    rewards_B: Tensor  # what the advantage was computed from, float64; shaped where the recipe shapes it
    correct_B: Tensor  # whether the answer is right, bool; the filter looks at this
    unknown_B: Tensor  # whether the grader could not tell (a time-out), bool; such a response counts as wrong
    truncated_B: Tensor  # whether the response was cut at the longest length, bool
    tokens_B: Tensor  # tokens of each response
    prompt_tokens_B: Tensor  # tokens of the prompt the response was drawn for
    mask_BT: Tensor  # 1 at the tokens of a response
    old_log_probs_BT: Tensor  # log-probs before the update, on the prompt the recipe anchors on
    sampling_log_probs_BT: Tensor | None  # of the rollout engine, on the prompt the tokens were drawn for
    ref_log_probs_BT: Tensor | None  # of the reference policy, on the anchor
    entropies_BT: Tensor | None  # of the policy at each token, on the anchor
    advantages_B: Tensor  # advantages of responses before token weights, float64
    weights_BT: Tensor | None = None  # token weights (CW-GRPO, Clip-Cov)
    correction_BT: Tensor | None = None  # truncated importance weights of anchor corrected
    engine_ratio_BT: Tensor | None = None  # log-probs of trainer minus engine, on the prompt that was asked
    engine_weights_BT: Tensor | None = None  # truncated importance weights between the two
    compared_B: Tensor | None = None  # whether the two were compared on the prompt that was asked, bool
    response_weights_B: Tensor | None = None  # weights of anchors tapered and dropped
    first_stage_B: Tensor | None = None  # whether a response was drawn in the first of two stages

    def __len__(self) -> int:
        return len(self.mask_BT)


def step_metrics(batch: StepBatch) -> dict[str, float]:
    """Return the finite metrics of a step, before the policy is updated; names begin with `tagrpo/`.

    Means of nothing are NaN, and so left out.
    """
    if not len(batch):
        return {}
    in_strips = strips(batch.mask_BT)
    sums = _token_sums(batch, in_strips)
    parts = (
        _sizes(batch),
        _zero_gradient(batch),
        _rewards(batch),
        _weights(batch, sums),
        _covariances(batch, in_strips),
        _engine(batch, sums),
        _response_weights(batch),
        _rescue(batch),
        _by_prompts(batch, sums),
    )
    return {PREFIX + name: value for part in parts for name, value in part.items() if np.isfinite(value)}


def _mean(values: Tensor) -> float:
    return float(values.double().mean())


def _sizes(batch: StepBatch) -> dict[str, float]:
    tokens_B = batch.tokens_B.double()
    return {
        "batch/responses": float(len(batch)),
        "batch/questions": float(len(torch.unique(batch.question_B))),
        "batch/prompts": float(len(torch.unique(_prompts(batch)))),
        "batch/groups": float(len(torch.unique(batch.group_B))),
        "tokens/total": tokens_B.sum().item(),
        "tokens/mean": _mean(tokens_B),
        "tokens/max": tokens_B.max().item(),
        "tokens/prompt_mean": _mean(batch.prompt_tokens_B),
        "tokens/truncated_share": _mean(batch.truncated_B),
        "tokens/right_mean": _mean(tokens_B[batch.correct_B]),
        "tokens/wrong_mean": _mean(tokens_B[~batch.correct_B]),
        "grader/unknown": batch.unknown_B.double().sum().item(),
        "grader/unknown_share": _mean(batch.unknown_B),
    }


def _zero_gradient(batch: StepBatch) -> dict[str, float]:
    """Return the shares of groups that are all right or all wrong, by kind of group, and the sums of both."""
    neighbor_B = batch.variant_B > 0
    everything_B = torch.ones_like(neighbor_B)
    kinds = (
        ("original", ~neighbor_B, batch.question_B),
        ("neighbor", neighbor_B, _prompts(batch)),
        ("neighbors", neighbor_B, batch.question_B),
        ("joint", everything_B, batch.question_B),
        ("group", everything_B, batch.group_B),
    )
    metrics: dict[str, float] = {}
    for kind, chosen_B, ids_B in kinds:
        if chosen_B.any():
            right_G = Groups.of(ids_B[chosen_B]).mean(batch.correct_B[chosen_B].double())
            all_right, all_wrong = _mean(right_G == 1), _mean(right_G == 0)
            metrics[f"zero/{kind}/all_right"], metrics[f"zero/{kind}/all_wrong"] = all_right, all_wrong
            metrics[f"zero/{kind}/share"] = all_right + all_wrong
    return metrics


def _rewards(batch: StepBatch) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, chosen_B in _parts(batch):
        metrics[f"reward/{name}"] = _mean(batch.rewards_B[chosen_B])
        metrics[f"correct/{name}"] = _mean(batch.correct_B[chosen_B])
    advantages_B = batch.advantages_B
    metrics["advantage/zero_share"] = _mean(advantages_B == 0)
    for name, chosen_B in (("positive", advantages_B > 0), ("negative", advantages_B < 0)):
        metrics[f"advantage/{name}_share"] = _mean(chosen_B)
        metrics[f"advantage/{name}_mean"] = _mean(advantages_B[chosen_B])
    return metrics


def _weights(batch: StepBatch, sums: Mapping[str, Tensor]) -> dict[str, float]:
    if "weights" not in sums:
        return {}
    tokens, has_tokens_B = batch.tokens_B.sum().item(), batch.tokens_B > 0
    mean, square, zero = (
        sums[name].sum().item() / tokens for name in ("weights", "weights_square", "weights_zero")
    )
    return {
        "weights/least": sums["weights_least"][has_tokens_B].min().item(),
        "weights/most": sums["weights_most"][has_tokens_B].max().item(),
        "weights/std": max(square - mean**2, 0.0) ** 0.5,
        "weights/zero_share": zero,
    }


def _covariances(batch: StepBatch, parts: Sequence[Strip]) -> dict[str, float]:
    """Return covariances of log pi_old and the advantage of the response, over all tokens of the batch.

    For each sign: `share`, its part of all values; for each of `TOP_SHARES`, of the values furthest from 0:
    `at_PERCENT`, the one of them nearest to 0, and `top_PERCENT`, their mean.
    """
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
    metrics = {"covariance/mean": float(values_N.mean(dtype=np.float64))}
    values_N.sort()
    zero = values_N.dtype.type(0)  # of any other type, and numpy would search in a copy
    below, above = np.searchsorted(values_N, zero, "left"), np.searchsorted(values_N, zero, "right")
    # Either begins with the value furthest from 0.
    for name, signed in (("positive", values_N[above:][::-1]), ("negative", values_N[:below])):
        if not signed.size:
            continue
        metrics[f"covariance/{name}/share"] = signed.size / values_N.size
        for share in TOP_SHARES:
            count, percent = max(1, round(share * signed.size)), f"{100 * share:g}"
            metrics[f"covariance/{name}/at_{percent}"] = float(signed[count - 1])
            metrics[f"covariance/{name}/top_{percent}"] = float(signed[:count].mean(dtype=np.float64))
    return metrics


def _engine(batch: StepBatch, sums: Mapping[str, Tensor]) -> dict[str, float]:
    """How far engine and trainer are apart on the prompts that were asked, and the weights for it."""
    metrics: dict[str, float] = {}
    if "engine_k3" in sums and batch.compared_B is not None:
        tokens = batch.tokens_B[batch.compared_B].sum()
        for name in ("gap", "k3"):
            metrics[f"engine/{name}"] = (sums[f"engine_{name}"][batch.compared_B].sum() / tokens).item()
    if "engine" in sums:
        metrics["engine/weight"] = (sums["engine"].sum() / batch.tokens_B.sum()).item()
        metrics["engine/ess"] = _effective(batch, sums, "engine")
    return metrics


def _response_weights(batch: StepBatch) -> dict[str, float]:
    """Of the responses that an anchor may weigh: those of neighbors with an advantage of 0 or less."""
    if batch.response_weights_B is None:
        return {}
    weights_B = batch.response_weights_B[(batch.variant_B > 0) & (batch.advantages_B < 0)].double()
    return {
        "response_weights/mean": _mean(weights_B),
        "response_weights/full_share": _mean(weights_B >= 1),
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
    return {
        "rescue/dead_share": _mean(~first_right_G),
        "rescue/asked_share": _mean(asked_G),
        "rescue/responses_share": _mean(batch.variant_B > 0),
        "rescue/revived_share": _mean(right_G[asked_G]),
    }


def _by_prompts(batch: StepBatch, sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Return means and effective shares, (sum w)^2 / (n sum w^2), of token values by kind of prompt."""
    means = {"entropy": "entropy", "k1": "kl/k1", "k3": "kl/k3", "correction": "correction/mean"}
    means["log_ratio"] = "anchor/log_ratio_token"
    shares = {"ratio": "anchor/ess_token", "correction": "correction/ess"}
    metrics: dict[str, float] = {}
    for part, chosen_B in _parts(batch):
        tokens = batch.tokens_B[chosen_B].sum()
        for name, values_B in sums.items():
            if name in means:
                metrics[f"{means[name]}/{part}"] = (values_B[chosen_B].sum() / tokens).item()
            if name in shares:
                metrics[f"{shares[name]}/{part}"] = _effective(batch, sums, name, chosen_B)
        if "log_ratio" in sums:
            ratio_B = sums["log_ratio"][chosen_B & (batch.tokens_B > 0)]
            twice = 2 * torch.logsumexp(ratio_B, 0) - torch.logsumexp(2 * ratio_B, 0)
            metrics[f"anchor/log_ratio/{part}"] = _mean(ratio_B)
            metrics[f"anchor/ess/{part}"] = (torch.exp(twice) / len(ratio_B)).item()
    return metrics


def _effective(
    batch: StepBatch, sums: Mapping[str, Tensor], name: str, chosen_B: Tensor | slice = slice(None)
) -> float:
    """Return the effective share of the token weights of some responses."""
    squares = sums[f"{name}_square"][chosen_B].sum() * batch.tokens_B[chosen_B].sum()
    return float(sums[name][chosen_B].sum() ** 2 / squares)


def _parts(batch: StepBatch) -> Iterator[tuple[str, Tensor]]:
    """Yield all responses, those to questions, those to neighbors, and those to each neighbor by place."""
    yield "mean", torch.ones_like(batch.variant_B, dtype=torch.bool)
    variants = torch.unique(batch.variant_B[batch.variant_B > 0]).tolist()
    if variants:
        yield "original", batch.variant_B == 0
        yield "neighbors", batch.variant_B > 0
    for variant in variants:
        yield f"variant_{variant}", batch.variant_B == variant


def _prompts(batch: StepBatch) -> Tensor:
    """Return a number for the prompt of each response."""
    return batch.question_B * (int(batch.variant_B.max()) + 1) + batch.variant_B


def _token_sums(batch: StepBatch, parts: Sequence[Strip]) -> dict[str, Tensor]:
    """Return the sums over the tokens of each response, in float64, of values that the batch has.

    The batch is read once, in the given strips of its mask; nothing of its size is held.
    """
    sums: dict[str, Tensor] = {}
    for strip in parts:
        for name, values_B in _of_strip(batch, strip):
            if name not in sums:
                sums[name] = torch.zeros(len(batch), dtype=torch.float64)
            sums[name][strip.rows] = values_B.double()
    return sums


def _of_strip(batch: StepBatch, strip: Strip) -> Iterator[tuple[str, Tensor]]:
    padding = strip.take(batch.mask_BT) <= 0

    def take(values_BT: Tensor) -> Tensor:
        # Padding may hold anything, infinities included.
        return strip.take(values_BT).masked_fill_(padding, 0.0)

    old = take(batch.old_log_probs_BT)
    if batch.entropies_BT is not None:
        yield "entropy", row_sums(take(batch.entropies_BT))
    if batch.sampling_log_probs_BT is not None:  # on the anchor, minus on the prompt it was drawn for
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
        gap = take(batch.engine_ratio_BT).double()  # k3 nearly cancels
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
        weights = take(batch.weights_BT)
        yield "weights", row_sums(weights)
        yield "weights_zero", (weights == 0).sum(-1) - padding.sum(-1)
        yield "weights_least", weights.masked_fill(padding, math.inf).amin(-1)
        yield "weights_most", weights.masked_fill(padding, -math.inf).amax(-1)
        yield "weights_square", row_sums(weights.square())
