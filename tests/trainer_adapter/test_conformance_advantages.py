"""Advantages against the numeric vectors of public code and papers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")

from vectors import Case, Compute, check_vectors, doubles, grpo, with_tokens

from trainer_adapter.methods.advantages.a_grae import (
    a_grae_advantages,
    easy_focused_advantages,
    hard_focused_advantages,
    negative_dominant_advantages,
    positive_dominant_advantages,
)
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.grpo_lead import lead_advantages, lead_rewards
from trainer_adapter.methods.advantages.rloo import rloo_advantages
from trainer_adapter.methods.groups import Groups


def rloo(case: Case) -> dict[str, Any]:
    formula = "repo" if case["fn"] == "rloo" else "paper"
    inputs = case["inputs"]
    return with_tokens(case, rloo_advantages(inputs["rewards"], inputs["group_ids"], formula=formula))


def a_grae(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards, ids = inputs["rewards"], inputs["group_ids"]

    def run(**changes: Any) -> torch.Tensor:
        settings = {"formula": case["variant"], "alpha": params["alpha"], "ddof": params["ddof"], **changes}
        return a_grae_advantages(rewards, ids, **settings)

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
        **with_tokens(case, lead_advantages(inputs["rewards"], ids, formula="repo")),
        "correct_ratio": ratios,
    }


def lead_length(case: Case) -> dict[str, Any]:
    inputs, params = case["inputs"], case["params"]
    rewards_B = lead_rewards(
        inputs["rewards"],
        inputs["lengths"],
        inputs["group_ids"],
        formula="repo",
        alpha=params["alpha"],
        gate=params["min3_gate"],
    )
    return {"rewards": rewards_B.tolist()}


def lead_paper(case: Case) -> dict[str, Any]:
    inputs = case["inputs"]
    groups = Groups.of(inputs["group_ids"])
    rewards_B = lead_rewards(inputs["correct"], inputs["lengths"], groups)
    before_B = grpo_advantages(rewards_B, groups)
    after_B = lead_advantages(rewards_B, groups)
    return {
        "rewards": rewards_B.tolist(),
        "advantages_before_reweight": before_B.tolist(),
        "rho": groups.spread(groups.mean(doubles(inputs["correct"]))).tolist(),
        "weights": (after_B / before_B).tolist(),
        "advantages": after_B.tolist(),
    }


FUNCTIONS: dict[str, Compute] = {
    "grpo_outcome": grpo,
    "grpo_vectorized": grpo,
    "grpo_paper": grpo,
    "rloo": rloo,
    "rloo_vectorized": rloo,
    "rloo_paper": rloo,
    "agrae_repo": a_grae,
    "agrae_paper": a_grae,
    "agrae_asymmetric_probes": a_grae_probes,
    "lead_advantage": lead_advantage,
    "lead_length_reward": lead_length,
    "lead_paper": lead_paper,
}


@pytest.mark.parametrize("method", ["grpo", "rloo", "a_grae", "grpo_lead"])
def test_every_vector_is_met(conformance_folder: Path, method: str) -> None:
    check_vectors(conformance_folder, method, FUNCTIONS)
