"""Objectives, from rewards to loss and gradient, against the numeric vectors of public code and papers."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")

from vectors import Case, Compute, check_vectors, doubles, gradient, grpo, leaf, policy_loss

from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.w_reinforce import w_reinforce_advantages
from trainer_adapter.methods.groups import Groups, over_tokens
from trainer_adapter.methods.losses.aggregation import aggregate
from trainer_adapter.methods.losses.policy import clipped_surrogate


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
    "drgrpo_advantage": grpo,
    "drgrpo_loss": drgrpo_loss,
    "drgrpo_objective_paper": drgrpo_loss,
    "ta_joint_advantage": ta_joint,
    "ta_objective": ta_objective,
    "ta_loss": ta_loss,
    "psr_nsr_advantage": w_reinforce,
    "w_reinforce_coefficients": w_reinforce,
    "w_reinforce_loss": w_reinforce,
}


@pytest.mark.parametrize("method", ["ta_grpo", "drgrpo", "w_reinforce"])
def test_every_vector_is_met(conformance_folder: Path, method: str) -> None:
    check_vectors(conformance_folder, method, FUNCTIONS)
