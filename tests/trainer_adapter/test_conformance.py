"""Formulas against the numeric vectors of public code and papers: advantages, weights, losses, objectives."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_adapter.methods.advantages.a_grae import (
    a_grae_advantages,
    easy_focused_advantages,
    hard_focused_advantages,
    negative_dominant_advantages,
    positive_dominant_advantages,
)
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.grpo_lead import ALPHA, REPO_GATE, grpo_lead_advantages, lead_rewards
from trainer_adapter.methods.advantages.rloo import rloo_advantages
from trainer_adapter.methods.advantages.w_reinforce import w_reinforce_advantages
from trainer_adapter.methods.groups import Groups
from trainer_adapter.methods.losses.aggregation import REPO_EPSILON, aggregate
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.token_weights.clip_cov import clip_cov_candidates
from trainer_adapter.methods.token_weights.covariance import Covariance
from trainer_adapter.methods.token_weights.cw_grpo import cw_grpo_weights

Case = dict[str, Any]
Compute = Callable[[Case], dict[str, Any]]


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
    elif abs(got - expected) > tolerance["atol"] + tolerance["rtol"] * abs(expected):
        yield f"{where}: {got} is not {expected}"


def rloo(case: Case) -> dict[str, Any]:
    formula = "repo" if case["fn"] == "rloo" else "paper"
    inputs = case["inputs"]
    return with_tokens(case, rloo_advantages(inputs["rewards"], inputs["group_ids"], formula=formula))


def a_grae(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards, ids = inputs["rewards"], inputs["group_ids"]

    def run(**changes: Any) -> torch.Tensor:
        settings = {"formula": case["variant"], "alpha": params["alpha"], **changes}
        return a_grae_advantages(rewards, ids, **settings)

    assert params["ddof"] == int(case["variant"] == "repo")
    if case["variant"] == "repo":
        return with_tokens(case, run(norm_by_std=params["norm_by_std"]))
    rewards_B = doubles(rewards)
    names = sorted(set(ids))
    return {
        "w": float(rewards_B.mean()),
        "p": {str(id): float(rewards_B[[other == id for other in ids]].mean()) for id in names},
        "advantages_before_attenuation": run(suppression=False).tolist(),
        "attenuation": min(1.0, float(rewards_B.mean()) / params["alpha"]),
        "advantages": run().tolist(),
    }


def a_grae_probes(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    rewards, ids = inputs["rewards"], inputs["group_ids"]
    return {
        "positive_dominant": positive_dominant_advantages(rewards, ids).tolist(),
        "negative_dominant": negative_dominant_advantages(rewards, ids).tolist(),
        "hard_focused": hard_focused_advantages(rewards, ids).tolist(),
        "easy_focused": easy_focused_advantages(rewards, ids).tolist(),
    }


def lead_advantage(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    rewards_B, ids = doubles(inputs["rewards"]), inputs["group_ids"]
    ratios = {
        str(id): float((rewards_B[[other == id for other in ids]] > 0).double().mean()) for id in set(ids)
    }
    return {
        **with_tokens(case, grpo_lead_advantages(inputs["rewards"], ids, formula="repo")),
        "correct_ratio": ratios,
    }


def lead_length(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    assert (params["alpha"], params["min3_gate"]) == (ALPHA, REPO_GATE)
    rewards_B = lead_rewards(inputs["rewards"], inputs["lengths"], inputs["group_ids"], formula="repo")
    return {"rewards": rewards_B.tolist()}


def lead_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    groups = Groups.of(inputs["group_ids"])
    rewards_B = lead_rewards(inputs["correct"], inputs["lengths"], groups)
    before_B = grpo_advantages(rewards_B, groups)
    after_B = grpo_lead_advantages(rewards_B, groups)
    return {
        "rewards": rewards_B.tolist(),
        "advantages_before_reweight": before_B.tolist(),
        "rho": groups.spread(groups.mean(doubles(inputs["correct"]))).tolist(),
        "weights": (after_B / before_B).tolist(),
        "advantages": after_B.tolist(),
    }


def cw_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["completion_mask"])
    advantages_B = doubles(inputs["advantages"])
    cov_BT = token_covariance(log_prob_BT, advantages_B, mask_BT)
    weights_BT = cw_grpo_weights(log_prob_BT.detach(), advantages_B, mask_BT)
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


def ta_joint(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards, questions = inputs["rewards"], inputs["question_ids"]
    if case["variant"] == "repo":
        advantages_B = grpo_advantages(rewards, questions, formula="repo", epsilon=params["epsilon"])
        return {"advantages": advantages_B.tolist()}
    return {
        f"advantages_ddof{ddof}": grpo_advantages(rewards, questions, ddof=ddof).tolist() for ddof in (0, 1)
    }


def ta_objective(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    groups = Groups.of(inputs["question_ids"])
    advantages_B = grpo_advantages(inputs["rewards"], groups, ddof=params["ddof"], epsilon=params["epsilon"])
    mask_BT, log_prob_BT = doubles(inputs["response_mask"]), leaf(inputs["log_prob_q0"])
    surrogate = clipped_surrogate(
        log_prob_BT,
        doubles(inputs["old_log_prob_q0"]),
        advantages_B,
        clip_low=params["clip_low"],
        clip_high=params["clip_high"],
    )
    per_response_B = -(surrogate.loss_BT * mask_BT).sum(-1) / mask_BT.sum(-1)
    loss = aggregate(surrogate.loss_BT, mask_BT, "seq-mean-token-mean")
    per_question_G = groups.mean(per_response_B)
    return {
        "advantages": advantages_B.tolist(),
        "per_response": per_response_B.tolist(),
        "objective_per_question": per_question_G.tolist(),
        "objective_mean_over_questions": float(per_question_G.mean().detach()),
        "objective_mean_over_responses": -float(loss.detach()),
        "grad_log_prob_of_minus_mean_over_responses": gradient(loss, log_prob_BT),
    }


def ta_loss(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    advantages_B = grpo_advantages(inputs["rewards"], inputs["question_ids"], formula="repo")
    return policy_loss(case, advantages_B, params["loss_agg_mode"], dual_clip=params["clip_ratio_c"])


def drgrpo_loss(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    advantages_B = grpo_advantages(
        inputs["rewards"], inputs["group_ids"], formula=case["variant"], norm_by_std=False
    )
    if case["variant"] == "paper":
        got = policy_loss(case, advantages_B, "seq-mean-token-sum", dual_clip=None)
        return {"loss_flat_mean_over_responses": got["loss"] / params["constant"]}
    mode, scale = params["loss_agg_mode"], params["loss_scale_factor"]
    return policy_loss(case, advantages_B, mode, dual_clip=None, scale=scale)


def w_reinforce(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    mask_BT = doubles(inputs["response_mask"])
    if case["fn"] == "w_reinforce_coefficients":
        parts = {"psr": "positive", "nsr": "negative", "w_reinforce": "weighted"}
        weight = params["lambda"]
        return {
            name: over_tokens(
                w_reinforce_advantages(inputs["rewards"], weight=weight, part=part), mask_BT
            ).tolist()
            for name, part in parts.items()
        }
    weight = params["positive_advantage_weight"]
    part = params["advantage"]
    advantages_B = w_reinforce_advantages(inputs["rewards"], weight=weight, part=part)
    got = {"token_advantages": over_tokens(advantages_B, mask_BT).tolist()}
    if "token_level_rewards" in inputs:  # without discount the return is the reward, on every token before it
        rewards_BT = doubles(inputs["token_level_rewards"])
        got["returns"] = (rewards_BT.flip(-1).cumsum(-1).flip(-1) * mask_BT).tolist()
    if case["fn"] == "w_reinforce_loss":
        learning = params["positive_learning_weight"]
        in_loss_B = w_reinforce_advantages(inputs["rewards"], weight=learning or weight)
        got.update(policy_loss(case, in_loss_B, "token-mean", dual_clip=None))
    return got


FUNCTIONS: dict[str, Compute] = {
    name: function
    for function, names in (
        (grpo, "grpo_outcome grpo_vectorized grpo_paper drgrpo_advantage"),
        (rloo, "rloo rloo_vectorized rloo_paper"),
        (a_grae, "agrae_repo agrae_paper"),
        (a_grae_probes, "agrae_asymmetric_probes"),
        (lead_advantage, "lead_advantage"),
        (lead_length, "lead_length_reward"),
        (lead_paper, "lead_paper"),
        (cw_paper, "cw_weights"),
        (clip_cov, "clip_cov_loss clip_cov_candidates_paper"),
        (ppo, "ppo_clip_loss ppo_clip_loss_paper"),
        (agg_loss, "agg_loss agg_loss_paper"),
        (kl, "kl_penalty kl_paper"),
        (drgrpo_loss, "drgrpo_loss drgrpo_objective_paper"),
        (ta_joint, "ta_joint_advantage"),
        (ta_objective, "ta_objective"),
        (ta_loss, "ta_loss"),
        (w_reinforce, "psr_nsr_advantage w_reinforce_coefficients w_reinforce_loss"),
    )
    for name in names.split()
}
METHODS = (
    *("grpo", "rloo", "a_grae", "grpo_lead", "cw_grpo", "clip_cov", "ppo_vanilla", "agg_loss", "kl_penalty"),
    *("ta_grpo", "drgrpo", "w_reinforce"),
)


OF_OTHER_CODE = {"cw_loss", "agg_loss_legacy"}
"""Functions of the vectors that tagrpo does not have."""


@pytest.mark.parametrize("method", METHODS)
def test_every_vector_is_met(conformance_folder: Path, method: str) -> None:
    file = json.loads((conformance_folder / f"{method}.json").read_text(encoding="utf-8"))
    cases = [case for case in file["cases"] if case["expected"] is not None]
    assert len(cases) == file["num_checkable"]
    wrong = [
        difference
        for case in cases
        if case["fn"] not in OF_OTHER_CODE
        for difference in differences(FUNCTIONS[case["fn"]](case), case["expected"], case["tol"], case["id"])
    ]
    assert wrong == []
