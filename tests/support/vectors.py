"""Numeric vectors of public code and papers, and what it takes to hold formulas against them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.losses.aggregation import REPO_EPSILON, aggregate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.token_weights.covariance import Covariance

Case = dict[str, Any]
Compute = Callable[[Case], dict[str, Any]]
INTERNAL = {"cw_loss": {"sigma", "cov"}}  # intermediate values that the function does not return


def over_tokens(values_B: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Return a response's value on each of its tokens, shape BT; 0 at padding."""
    return values_B.unsqueeze(-1) * mask_BT.to(values_B.dtype)


def token_covariance(
    log_prob_BT: torch.Tensor, advantages_BT: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    """Return (log pi - mean log pi)(A - mean A) on every token, 0 at padding (arXiv 2505.22617; 2605.11538).

    Means are over all tokens of the batch, so a long response counts more in the mean of A than a short one.

    Args:
        log_prob_BT: Log-probs, taken as constants.
        advantages_BT: Advantage of each token, or of each response (shape B).
        mask_BT: 1 at the tokens of a response, 0 at padding.
    """
    covariance = Covariance.of(log_prob_BT, advantages_BT, mask_BT, None)
    filled_BT = torch.zeros_like(covariance.log_prob_BT)
    for strip in covariance.strips:
        strip.put(covariance.on(strip)[0], filled_BT)
    return filled_BT


def cw_weights_repo(
    log_prob_BT: torch.Tensor, advantages_B: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    """Return the weights of the released code, shape BT: not constants, since their gradient flows.

    Log-probs are centred over each response, advantages over the responses of the batch, and sigma is over
    the batch's tokens. The weights have mean 1 over all B x T places including padding, so they grow with
    padding.
    """
    mask_BT = mask_BT.to(log_prob_BT.dtype)
    lengths_B1 = mask_BT.sum(-1, keepdim=True) + REPO_EPSILON
    centred_BT = log_prob_BT - (log_prob_BT * mask_BT).sum(-1, keepdim=True) / lengths_B1
    cov_BT = centred_BT * (advantages_B - advantages_B.mean()).unsqueeze(-1) * mask_BT
    sigma = cov_BT[mask_BT > 0].std(unbiased=False) + REPO_EPSILON
    weights_BT = torch.exp(-cov_BT.square() / (2 * sigma.square())) * mask_BT
    return weights_BT * mask_BT.numel() / weights_BT.sum()


def doubles(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def leaf(values: Any) -> torch.Tensor:
    return doubles(values).requires_grad_()


def gradient(loss: torch.Tensor, of: torch.Tensor) -> list[Any]:
    (found,) = torch.autograd.grad(loss, of)
    return list(found.tolist())


def with_tokens(case: Case, advantages_B: torch.Tensor) -> dict[str, Any]:
    got: dict[str, Any] = {"advantages": advantages_B.tolist()}
    if "response_mask" in case["inputs"]:
        mask_BT = doubles(case["inputs"]["response_mask"])
        got["token_advantages"] = over_tokens(advantages_B, mask_BT).tolist()
    return got


def grpo(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards = (
        doubles(inputs["token_level_rewards"]).sum(-1).tolist()
        if "token_level_rewards" in inputs
        else inputs["rewards"]
    )
    advantages_B = grpo_advantages(
        rewards,
        inputs["group_ids"],
        formula=case["variant"],
        ddof=params.get("ddof"),
        epsilon=params.get("epsilon"),
        norm_by_std=params["norm_by_std"],
    )
    return with_tokens(case, advantages_B)


def policy_loss(
    case: Case, advantages: torch.Tensor, mode: str, *, dual_clip: float | None, **counts: Any
) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    log_prob_BT, old_BT = leaf(inputs["log_prob"]), doubles(inputs["old_log_prob"])
    mask_BT = doubles(inputs["response_mask"])
    surrogate = clipped_surrogate(
        log_prob_BT,
        old_BT,
        advantages,
        clip_low=params.get("clip_low", params.get("clip")),
        clip_high=params.get("clip_high", params.get("clip")),
        dual_clip=dual_clip,
    )
    repo = case["variant"] == "repo"
    loss = aggregate(surrogate.loss_BT, mask_BT, mode, epsilon=REPO_EPSILON if repo else 0.0, **counts)
    count = mask_BT.sum()
    return {
        "loss": float(loss.detach()),
        "pg_clipfrac": float((surrogate.clipped_BT * mask_BT).sum() / count),
        "pg_clipfrac_lower": float((surrogate.dual_clipped_BT * mask_BT).sum() / count),
        "ppo_kl": float(((old_BT - log_prob_BT.detach()) * mask_BT).sum() / count),
        "grad_log_prob": gradient(loss, log_prob_BT),
    }


def differences(got: Any, expected: Any, tolerance: dict[str, float], where: str) -> Iterator[str]:
    if expected is None:
        return
    if isinstance(expected, dict):
        for key, value in expected.items():
            yield from differences(got[key], value, tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for place, value in enumerate(expected):
            yield from differences(got[place], value, tolerance, f"{where}[{place}]")
    elif not math.isclose(got, expected, rel_tol=0, abs_tol=allowed(expected, tolerance)):
        yield f"{where}: {got} is not {expected}"


def allowed(expected: float, tolerance: dict[str, float]) -> float:
    return tolerance["atol"] + tolerance["rtol"] * abs(expected)


def check_vectors(folder: Path, method: str, functions: Mapping[str, Compute]) -> None:
    """Fail unless every case of a method that can be checked is met, each by the function of its name."""
    file = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    wrong, checked = [], 0
    for case in file["cases"]:
        if case["expected"] is None:
            continue
        expected = {k: v for k, v in case["expected"].items() if k not in INTERNAL.get(case["fn"], ())}
        wrong += list(differences(functions[case["fn"]](case), expected, case["tol"], case["id"]))
        checked += 1
    assert wrong == []
    assert checked == file["num_checkable"]
