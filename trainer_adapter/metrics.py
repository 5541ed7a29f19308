"""What a training step says about itself: pure functions of its batch. docs/metrics.md explains each name.

Suffixes: B responses, T tokens, N valid tokens.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from trainer_adapter.groups import Groups, Tensor
from trainer_adapter.losses.kl import kl_estimate
from trainer_adapter.step_batch import StepBatch
from trainer_adapter.weights.covariance import strips, token_covariance

PREFIX = "tagrpo/"
TOP_SHARES: tuple[float, ...] = (0.0001, 0.01, 0.2, 0.4, 1.0)
"""Shares of the tokens of one sign whose mean covariance is shown (arXiv 2605.11538, Table 1)."""


def step_metrics(batch: StepBatch) -> dict[str, float]:
    """Return the metrics of a step, before the policy is updated; names begin with `tagrpo/`.

    What a batch cannot say is left out (no neighbors, no reference policy, no sampling log-probs, no token
    at all), so that no value is ever NaN.
    """
    if not len(batch):
        return {}
    parts = (
        _sizes(batch),
        _zero_gradient(batch),
        _rewards(batch),
        _advantages(batch),
        _weights(batch),
        _entropies(batch),
        _covariances(batch),
        _anchor(batch),
        _correction(batch),
        _kl(batch),
    )
    return {PREFIX + name: value for part in parts for name, value in part.items() if np.isfinite(value)}


def equal_shares(correct_B: Tensor, groups: Groups) -> dict[str, float]:
    """Return the share of groups that are all right, all wrong, and the sum of both ("share").

    Such a group has no gradient: every advantage in it is 0. A group of one response is one of them.
    """
    right_G = groups.mean(correct_B.double())
    all_right, all_wrong = ((right_G == value).double().mean().item() for value in (1.0, 0.0))
    return {"all_right": all_right, "all_wrong": all_wrong, "share": all_right + all_wrong}


def top_means(values: npt.NDArray[np.floating], shares: tuple[float, ...] = TOP_SHARES) -> list[float]:
    """Return the mean of the largest values, for each share of them; at least one value is taken.

    Raises:
        ValueError: no values.
    """
    if not values.size:
        raise ValueError("there are no values to take the largest of")
    counts = [max(1, round(share * values.size)) for share in shares]
    bounds = sorted({values.size - count for count in counts})
    ordered = np.partition(values, bounds)
    return [float(ordered[values.size - count :].mean(dtype=np.float64)) for count in counts]


def effective_share(log_weights: Tensor) -> float:
    """Return the effective sample size over the number of weights, (sum w)^2 / (n sum w^2), 1/n to 1."""
    twice = 2 * torch.logsumexp(log_weights.double(), 0) - torch.logsumexp(2 * log_weights.double(), 0)
    return float(torch.exp(twice) / len(log_weights))


def _sizes(batch: StepBatch) -> dict[str, float]:
    tokens_B = batch.tokens_B.double()
    found = {
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
            found[f"tokens/{name}_mean"] = tokens_B[chosen_B].mean().item()
    return found


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
    found = {}
    for name, chosen_B in _parts(batch):
        found[f"reward/{name}"] = batch.rewards_B[chosen_B].double().mean().item()
        found[f"correct/{name}"] = batch.correct_B[chosen_B].double().mean().item()
    return found


def _advantages(batch: StepBatch) -> dict[str, float]:
    advantages_B = batch.advantages_B.double()
    found = {"advantage/zero_share": (advantages_B == 0).double().mean().item()}
    for name, chosen_B in (("positive", advantages_B > 0), ("negative", advantages_B < 0)):
        found[f"advantage/{name}_share"] = chosen_B.double().mean().item()
        if chosen_B.any():
            found[f"advantage/{name}_mean"] = advantages_B[chosen_B].mean().item()
    return found


def _weights(batch: StepBatch) -> dict[str, float]:
    if batch.weights_BT is None or not batch.mask_BT.any():
        return {}
    strips_N = [batch.weights_BT[rows][batch.mask_BT[rows] > 0].double() for rows in strips(batch.mask_BT)]
    tokens = sum(len(values) for values in strips_N)
    mean = sum(values.sum().item() for values in strips_N) / tokens
    return {
        "weights/least": min(values.min().item() for values in strips_N if len(values)),
        "weights/most": max(values.max().item() for values in strips_N if len(values)),
        "weights/std": (sum((values - mean).square().sum().item() for values in strips_N) / tokens) ** 0.5,
        "weights/zero_share": sum((values == 0).sum().item() for values in strips_N) / tokens,
    }


def _entropies(batch: StepBatch) -> dict[str, float]:
    if batch.entropies_BT is None:
        return {}
    return _token_means(batch, _row_sums(batch, lambda values: values, batch.entropies_BT), "entropy")


def _covariances(batch: StepBatch) -> dict[str, float]:
    """Of log pi_old and the advantage of the response, over all tokens of the batch."""
    mask_BT = batch.mask_BT > 0
    if not mask_BT.any():
        return {}
    covariance_BT = token_covariance(batch.old_log_probs_BT, batch.advantages_B, batch.mask_BT)
    covariance_N = covariance_BT[mask_BT].numpy()
    found = {"covariance/mean": float(covariance_N.mean(dtype=np.float64))}
    for name, sign in (("positive", 1), ("negative", -1)):
        signed = sign * covariance_N
        signed = signed[signed > 0]
        if signed.size:
            found[f"covariance/{name}/share"] = signed.size / covariance_N.size
            for share, mean in zip(TOP_SHARES, top_means(signed), strict=True):
                found[f"covariance/{name}/top_{share:.4%}".rstrip("%").rstrip("0").rstrip(".")] = sign * mean
    return found


def _anchor(batch: StepBatch) -> dict[str, float]:
    """How far the anchor's log-probs are from those the tokens were drawn with."""
    if batch.sampling_log_probs_BT is None:
        return {}
    pair = batch.old_log_probs_BT, batch.sampling_log_probs_BT
    ratio_B = _row_sums(batch, lambda old, drawn: old - drawn, *pair)
    first_B = _row_sums(batch, lambda old, drawn: (old - drawn).exp(), *pair)
    second_B = _row_sums(batch, lambda old, drawn: (2 * (old - drawn)).exp(), *pair)
    lengths_B = batch.tokens_B
    found = _token_means(batch, ratio_B, "anchor/log_ratio_token")
    for name, chosen_B in _parts(batch):
        kept_B = chosen_B & (lengths_B > 0)
        if kept_B.any():
            found[f"anchor/log_ratio/{name}"] = ratio_B[kept_B].mean().item()
            found[f"anchor/ess/{name}"] = effective_share(ratio_B[kept_B])
            found[f"anchor/ess_token/{name}"] = _effective(
                first_B[kept_B], second_B[kept_B], lengths_B[kept_B]
            )
    return found


def _correction(batch: StepBatch) -> dict[str, float]:
    if batch.correction_BT is None:
        return {}
    first_B = _row_sums(batch, lambda weights: weights, batch.correction_BT)
    second_B = _row_sums(batch, torch.square, batch.correction_BT)
    lengths_B = batch.tokens_B
    found = _token_means(batch, first_B, "correction/mean")
    for name, chosen_B in _parts(batch):
        if second_B[chosen_B].sum() > 0:
            found[f"correction/ess/{name}"] = _effective(
                first_B[chosen_B], second_B[chosen_B], lengths_B[chosen_B]
            )
    return found


def _kl(batch: StepBatch) -> dict[str, float]:
    """Estimates of KL(pi_old || reference) a token, on the anchor."""
    if batch.ref_log_probs_BT is None:
        return {}
    pair = batch.old_log_probs_BT, batch.ref_log_probs_BT
    k1_B = _row_sums(batch, lambda old, ref: kl_estimate(old, ref, "k1"), *pair)
    k3_B = _row_sums(batch, lambda old, ref: kl_estimate(old, ref, "k3"), *pair)
    return _token_means(batch, k1_B, "kl/k1") | _token_means(batch, k3_B, "kl/k3")


def _row_sums(batch: StepBatch, function: Callable[..., Tensor], *values_BT: Tensor) -> Tensor:
    """Return the sum of a function of token values over each response, shape B, float64."""
    sums_B = torch.empty(len(batch), dtype=torch.float64)
    for rows in strips(batch.mask_BT):
        part = function(*(values[rows].double() for values in values_BT))
        sums_B[rows] = part.where(batch.mask_BT[rows] > 0, 0.0).sum(-1)
    return sums_B


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


def metric_pattern(name: str) -> str:
    """Return a metric's name as the documentation has it: `variant_K` for any neighbor's place."""
    head, _, place = name.rpartition("variant_")
    return f"{head}variant_K" if head and place.isdecimal() else name
