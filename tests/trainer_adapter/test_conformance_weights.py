"""Token weights against the numeric vectors of public code and papers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")

from vectors import Case, Compute, check_vectors, doubles, gradient, leaf

from trainer_adapter.methods.losses.aggregation import REPO_EPSILON, aggregate
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.token_weights.clip_cov import clip_cov_candidates
from trainer_adapter.methods.token_weights.covariance import token_covariance
from trainer_adapter.methods.token_weights.cw_grpo import cw_weights, cw_weights_repo


def cw_loss(case: Case) -> dict[str, Any]:
    inputs, beta = case["inputs"], case["params"]["beta"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["completion_mask"])
    advantages_B = doubles(inputs["advantages"])
    weights_BT = cw_weights_repo(log_prob_BT, advantages_B, mask_BT)
    surrogate = clipped_surrogate(log_prob_BT, log_prob_BT.detach(), advantages_B)
    loss_BT = surrogate.loss_BT * weights_BT
    if beta:
        loss_BT = loss_BT + beta * kl_estimate(log_prob_BT, doubles(inputs["ref_log_prob"]), "k3")
    loss = aggregate(loss_BT, mask_BT, "seq-mean-token-mean")
    return {
        "loss": float(loss.detach()),
        "weights": weights_BT.tolist(),
        "grad_log_prob": gradient(loss, log_prob_BT),
    }


def cw_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["completion_mask"])
    advantages_B = doubles(inputs["advantages"])
    cov_BT = token_covariance(log_prob_BT, advantages_B, mask_BT)
    weights_BT = cw_weights(log_prob_BT.detach(), advantages_B, mask_BT)
    sigma = float(cov_BT[mask_BT > 0].std(unbiased=False))
    weighted_BT = weights_BT * advantages_B.unsqueeze(-1)
    surrogate = clipped_surrogate(log_prob_BT, log_prob_BT.detach(), weighted_BT)
    loss = aggregate(surrogate.loss_BT, mask_BT, "seq-mean-token-mean")
    unscaled_BT = torch.exp(-(cov_BT**2) / (2 * sigma**2)) if sigma else torch.ones_like(cov_BT)
    return {
        "c": cov_BT.tolist(),
        "sigma": sigma,
        "w": (unscaled_BT * mask_BT).tolist(),
        "w_tilde": weights_BT.tolist(),
        "reweighted_advantages": weighted_BT.tolist(),
        "loss_on_policy": float(loss.detach()),
        "grad_log_prob_on_policy_weights_detached": gradient(loss, log_prob_BT),
    }


def clip_cov(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["response_mask"])
    advantages_BT = doubles(inputs["advantages"])
    repo = case["variant"] == "repo"
    old_BT = doubles(inputs["old_log_prob"]) if repo else None
    bounds = {"clip_low": params["clip_low"], "clip_high": params["clip_high"]} if repo else {}
    found = clip_cov_candidates(
        log_prob_BT.detach(),
        advantages_BT,
        mask_BT,
        old_log_prob_BT=old_BT,
        formula=case["variant"],
        ratio=params["clip_cov_ratio"],
        lower=params["clip_cov_lb"],
        upper=params["clip_cov_ub"],
        **bounds,
    )
    got: dict[str, Any] = {
        "cov": token_covariance(log_prob_BT, advantages_BT, mask_BT).tolist(),
        "candidate_tokens": torch.nonzero(found.candidate_BT).tolist(),
        "clip_num": found.wanted,
        "num_clipped": found.clipped,
    }
    if old_BT is not None:
        kept_BT = torch.ones_like(mask_BT)
        for row, token in inputs["clipped_tokens"]:
            kept_BT[row, token] = 0.0
        surrogate = clipped_surrogate(log_prob_BT, old_BT, advantages_BT, **bounds)
        loss = aggregate(surrogate.loss_BT * kept_BT, mask_BT, params["loss_agg_mode"], epsilon=REPO_EPSILON)
        got["loss"] = float(loss.detach())
        got["pg_clipfrac"] = float(((1 - kept_BT) * mask_BT).sum() / mask_BT.sum())
        got["ppo_kl"] = float(((old_BT - log_prob_BT.detach()) * mask_BT).sum() / mask_BT.sum())
        got["grad_log_prob"] = gradient(loss, log_prob_BT)
    return got


FUNCTIONS: dict[str, Compute] = {
    "cw_loss": cw_loss,
    "cw_weights": cw_paper,
    "clip_cov_loss": clip_cov,
    "clip_cov_candidates_paper": clip_cov,
}


@pytest.mark.parametrize("method", ["cw_grpo", "clip_cov"])
def test_every_vector_is_met(conformance_folder: Path, method: str) -> None:
    check_vectors(conformance_folder, method, FUNCTIONS)
