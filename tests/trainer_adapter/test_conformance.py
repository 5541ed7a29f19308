"""Formulas against the numeric vectors of public code and papers: advantages, weights, losses, objectives."""

import json
from collections.abc import Callable, Iterator
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


def token_covariance(log_prob_BT: Any, advantages_BT: Any, mask_BT: Any) -> torch.Tensor:
    """Return (log pi - mean log pi)(A - mean A) on every token, 0 at padding (arXiv 2505.22617)."""
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
    (made,) = torch.autograd.grad(loss, of)
    return list(made.tolist())


def grpo(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards = inputs.get("rewards") or doubles(inputs["token_level_rewards"]).sum(-1).tolist()
    settings = {name: params.get(name) for name in ("ddof", "epsilon")}
    settings |= {"formula": case["variant"], "norm_by_std": params["norm_by_std"]}
    return {"advantages": grpo_advantages(rewards, inputs["group_ids"], **settings).tolist()}


def rloo(case: Case) -> dict[str, Any]:
    formula = "repo" if case["fn"] == "rloo" else "paper"
    inputs = case["inputs"]
    return {"advantages": rloo_advantages(inputs["rewards"], inputs["group_ids"], formula=formula).tolist()}


def a_grae(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    repo = case["variant"] == "repo"
    assert params["ddof"] == int(repo)

    def run(**changes: Any) -> list[float]:
        settings = {"formula": case["variant"], "alpha": params["alpha"], **changes}
        return list(a_grae_advantages(inputs["rewards"], inputs["group_ids"], **settings).tolist())

    if repo:
        return {"advantages": run(norm_by_std=params["norm_by_std"])}
    return {"advantages_before_attenuation": run(suppression=False), "advantages": run()}


def a_grae_probes(case: Case) -> dict[str, Any]:
    formulas = {
        "positive_dominant": positive_dominant_advantages,
        "negative_dominant": negative_dominant_advantages,
        "hard_focused": hard_focused_advantages,
        "easy_focused": easy_focused_advantages,
    }
    rewards, ids = case["inputs"]["rewards"], case["inputs"]["group_ids"]
    return {name: formula(rewards, ids).tolist() for name, formula in formulas.items()}


def lead_advantage(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    advantages_B = grpo_lead_advantages(inputs["rewards"], inputs["group_ids"], formula="repo")
    return {"advantages": advantages_B.tolist()}


def lead_length(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    assert (params["alpha"], params["min3_gate"]) == (ALPHA, REPO_GATE)
    rewards_B = lead_rewards(inputs["rewards"], inputs["lengths"], inputs["group_ids"], formula="repo")
    return {"rewards": rewards_B.tolist()}


def lead_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    groups = Groups.of(inputs["group_ids"])
    rewards_B = lead_rewards(inputs["correct"], inputs["lengths"], groups)
    return {
        "rewards": rewards_B.tolist(),
        "advantages_before_reweight": grpo_advantages(rewards_B, groups).tolist(),
        "advantages": grpo_lead_advantages(rewards_B, groups).tolist(),
    }


def cw_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["completion_mask"])
    advantages_B = doubles(inputs["advantages"])
    weights_BT = cw_grpo_weights(log_prob_BT.detach(), advantages_B, mask_BT)
    surrogate = clipped_surrogate(log_prob_BT, log_prob_BT.detach(), weights_BT * advantages_B.unsqueeze(-1))
    loss = aggregate(surrogate.loss_BT, mask_BT, "seq-mean-token-mean")
    return {
        "c": token_covariance(log_prob_BT, advantages_B, mask_BT).tolist(),
        "w_tilde": weights_BT.tolist(),
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
    chosen = clip_cov_candidates(
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
        "candidate_tokens": torch.nonzero(chosen.candidate_BT).tolist(),
        "clip_num": chosen.wanted,
        "num_clipped": chosen.clipped,
    }
    if old_BT is not None:
        kept_BT = torch.ones_like(mask_BT)
        for row, token in inputs["clipped_tokens"]:
            kept_BT[row, token] = 0.0
        surrogate = clipped_surrogate(log_prob_BT, old_BT, advantages_BT, **bounds)
        loss = aggregate(surrogate.loss_BT * kept_BT, mask_BT, params["loss_agg_mode"], epsilon=REPO_EPSILON)
        got |= {"loss": float(loss.detach()), "grad_log_prob": gradient(loss, log_prob_BT)}
    return got


def policy_loss(
    case: Case, advantages: torch.Tensor, mode: str, *, dual_clip: float | None, **counts: Any
) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    log_prob_BT, mask_BT = leaf(inputs["log_prob"]), doubles(inputs["response_mask"])
    surrogate = clipped_surrogate(
        log_prob_BT,
        doubles(inputs["old_log_prob"]),
        advantages,
        clip_low=params.get("clip_low", params.get("clip")),
        clip_high=params.get("clip_high", params.get("clip")),
        dual_clip=dual_clip,
    )
    epsilon = REPO_EPSILON if case["variant"] == "repo" else 0.0
    loss = aggregate(surrogate.loss_BT, mask_BT, mode, epsilon=epsilon, **counts)
    return {
        "loss": float(loss.detach()),
        "pg_clipfrac": float((surrogate.clipped_BT * mask_BT).sum() / mask_BT.sum()),
        "pg_clipfrac_lower": float((surrogate.dual_clipped_BT * mask_BT).sum() / mask_BT.sum()),
        "grad_log_prob": gradient(loss, log_prob_BT),
    }


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
    counts = {
        "responses": params["global_batch_size"],
        "tokens": params["batch_num_tokens"],
        "ranks": params["dp_size"],
        "scale": params["loss_scale_factor"],
        "epsilon": REPO_EPSILON,
    }
    return {mode: float(aggregate(loss_BT, mask_BT, mode, **counts)) for mode in case["expected"]}


def kl(case: Case) -> dict[str, Any]:
    reference_BT, repo = doubles(case["inputs"]["ref_log_prob"]), case["variant"] == "repo"
    got: dict[str, Any] = {}
    for kind in case["expected"]:
        log_prob_BT = leaf(case["inputs"]["log_prob"])
        name = kind.removesuffix("+")
        if repo and name == "k3":
            name = "low_var_kl"  # verl bounds both
        value_BT = kl_estimate(log_prob_BT, reference_BT, name, straight_through=kind.endswith("+"))
        grad, value = gradient(value_BT.sum(), log_prob_BT), value_BT.detach().tolist()
        got[kind] = {"value": value, "grad_log_prob": grad} if repo else value
    return got


def ta_joint(case: Case) -> dict[str, Any]:
    rewards, questions = case["inputs"]["rewards"], case["inputs"]["question_ids"]
    if case["variant"] == "repo":
        epsilon = case["params"]["epsilon"]
        return {"advantages": grpo_advantages(rewards, questions, formula="repo", epsilon=epsilon).tolist()}
    made = {ddof: grpo_advantages(rewards, questions, ddof=ddof).tolist() for ddof in (0, 1)}
    return {f"advantages_ddof{ddof}": values for ddof, values in made.items()}


def ta_objective(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    settings = {"ddof": params["ddof"], "epsilon": params["epsilon"]}
    advantages_B = grpo_advantages(inputs["rewards"], inputs["question_ids"], **settings)
    log_prob_BT, old_BT = leaf(inputs["log_prob_q0"]), doubles(inputs["old_log_prob_q0"])
    bounds = {"clip_low": params["clip_low"], "clip_high": params["clip_high"]}
    surrogate = clipped_surrogate(log_prob_BT, old_BT, advantages_B, **bounds)
    loss = aggregate(surrogate.loss_BT, doubles(inputs["response_mask"]), "seq-mean-token-mean")
    return {
        "advantages": advantages_B.tolist(),
        "objective_mean_over_responses": -float(loss.detach()),
        "grad_log_prob_of_minus_mean_over_responses": gradient(loss, log_prob_BT),
    }


def ta_loss(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    advantages_B = grpo_advantages(inputs["rewards"], inputs["question_ids"], formula="repo")
    return policy_loss(case, advantages_B, params["loss_agg_mode"], dual_clip=params["clip_ratio_c"])


def drgrpo_loss(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    settings = {"formula": case["variant"], "norm_by_std": False}
    advantages_B = grpo_advantages(inputs["rewards"], inputs["group_ids"], **settings)
    if case["variant"] == "paper":
        got = policy_loss(case, advantages_B, "seq-mean-token-sum", dual_clip=None)
        return {"loss_flat_mean_over_responses": got["loss"] / params["constant"]}
    mode, scale = params["loss_agg_mode"], params["loss_scale_factor"]
    return policy_loss(case, advantages_B, mode, dual_clip=None, scale=scale)


def w_reinforce(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    mask_BT = doubles(inputs["response_mask"])

    def on_tokens(weight: float, part: str) -> list[Any]:
        advantages_B = w_reinforce_advantages(inputs["rewards"], weight=weight, part=part)
        return list((advantages_B.unsqueeze(-1) * mask_BT).tolist())

    if case["fn"] == "w_reinforce_coefficients":
        parts = {"psr": "positive", "nsr": "negative", "w_reinforce": "weighted"}
        return {name: on_tokens(params["lambda"], part) for name, part in parts.items()}
    weight = params["positive_advantage_weight"]
    got = {"token_advantages": on_tokens(weight, params["advantage"])}
    if case["fn"] == "w_reinforce_loss":
        learning = params["positive_learning_weight"]
        in_loss_B = w_reinforce_advantages(inputs["rewards"], weight=learning or weight)
        got |= policy_loss(case, in_loss_B, "token-mean", dual_clip=None)
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


def differences(got: Any, expected: Any, tolerance: dict[str, float], where: str) -> Iterator[str]:
    """Yield where numbers differ; intermediate values that a function does not return are left out."""
    if expected is None:
        return
    if isinstance(expected, dict):
        assert got.keys() & expected.keys(), where
        for key in got.keys() & expected.keys():
            yield from differences(got[key], expected[key], tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for place, value in enumerate(expected):
            yield from differences(got[place], value, tolerance, f"{where}[{place}]")
    elif not abs(got - expected) <= tolerance["atol"] + tolerance["rtol"] * abs(expected):
        yield f"{where}: {got} is not {expected}"


OF_OTHER_CODE = {"cw_loss", "agg_loss_legacy"}
"""Functions of the vectors that tagrpo does not have."""


@pytest.mark.parametrize("method", METHODS)
def test_every_vector_is_met(conformance_folder, method):
    file = json.loads((conformance_folder / f"{method}.json").read_text(encoding="utf-8"))
    cases = [case for case in file["cases"] if case["expected"] is not None]
    assert len(cases) == file["num_checkable"]
    checked = [case for case in cases if case["fn"] not in OF_OTHER_CODE]
    made = [(FUNCTIONS[case["fn"]](case), case["expected"], case["tol"], case["id"]) for case in checked]
    wrong = [difference for each in made for difference in differences(*each)]
    assert wrong == []
