"""Losses, their aggregation and KL estimates against the numeric vectors of public code and papers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")

from vectors import Case, Compute, check_vectors, doubles, gradient, leaf, policy_loss

from trainer_adapter.methods.losses.aggregation import REPO_EPSILON, aggregate
from trainer_adapter.methods.losses.kl import kl_estimate


def ppo(case: Case) -> dict[str, Any]:
    params = case["params"]
    return policy_loss(
        case,
        doubles(case["inputs"]["advantages"]),
        params["loss_agg_mode"],
        dual_clip=params.get("clip_ratio_c") if params.get("dual_clip") else None,
        tokens=params.get("batch_num_tokens"),
        ranks=params.get("dp_size", 1),
    )


def agg_loss(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    loss_BT, mask_BT = doubles(inputs["loss_mat"]), doubles(inputs["loss_mask"])
    if case["fn"] == "agg_loss_paper":
        names = {
            "dapo_token_mean": "token-mean",
            "grpo_seq_mean_token_mean": "seq-mean-token-mean",
            "drgrpo_seq_mean_token_sum": "seq-mean-token-sum",
        }
        return {name: float(aggregate(loss_BT, mask_BT, mode)) for name, mode in names.items()}
    if case["fn"] == "agg_loss_legacy":
        return legacy_aggregations(loss_BT, mask_BT, case["params"]["impl"])
    return {
        mode: float(
            aggregate(
                loss_BT,
                mask_BT,
                mode,
                responses=params["global_batch_size"],
                tokens=params["batch_num_tokens"],
                ranks=params["dp_size"],
                scale=params["loss_scale_factor"],
                epsilon=REPO_EPSILON,
            )
        )
        for mode in case["expected"]
    }


def legacy_aggregations(loss_BT: torch.Tensor, mask_BT: torch.Tensor, impl: str) -> dict[str, Any]:
    """What older forks of verl computed, in terms of today's function: they divided by other counts."""
    rows = float(len(loss_BT))
    filled = float((mask_BT.sum(-1) > 0).sum())
    divisor = filled if impl == "volcengine_jan2026" else rows
    norm = {"responses": 1.0}
    return {
        "token-mean": float(aggregate(loss_BT, mask_BT, "token-mean")),
        "seq-mean-token-sum": float(aggregate(loss_BT, mask_BT, "seq-mean-token-sum", responses=divisor)),
        "seq-mean-token-sum-norm": float(aggregate(loss_BT, mask_BT, "seq-mean-token-sum-norm", **norm)),
        "seq-mean-token-mean": float(aggregate(loss_BT, mask_BT, "seq-mean-token-mean", responses=divisor)),
    }


def kl(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    reference_BT = doubles(inputs["ref_log_prob"])
    got: dict[str, Any] = {}
    for kind in case["expected"]:
        log_prob_BT = leaf(inputs["log_prob"])
        name = kind.removesuffix("+")
        if case["variant"] == "repo" and name == "k3":
            name = "low_var_kl"  # verl bounds both
        value_BT = kl_estimate(log_prob_BT, reference_BT, name, straight_through=kind.endswith("+"))
        grad = gradient(value_BT.sum(), log_prob_BT)
        value = value_BT.detach().tolist()
        got[kind] = {"value": value, "grad_log_prob": grad} if case["variant"] == "repo" else value
    return got


FUNCTIONS: dict[str, Compute] = {
    "ppo_clip_loss": ppo,
    "ppo_clip_loss_paper": ppo,
    "agg_loss": agg_loss,
    "agg_loss_legacy": agg_loss,
    "agg_loss_paper": agg_loss,
    "kl_penalty": kl,
    "kl_paper": kl,
}


@pytest.mark.parametrize("method", ["ppo_vanilla", "agg_loss", "kl_penalty"])
def test_every_vector_is_met(conformance_folder: Path, method: str) -> None:
    check_vectors(conformance_folder, method, FUNCTIONS)
