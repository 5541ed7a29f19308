"""Weights between engine, trainer and anchor: verl's formula, each part apart."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.verl.plugin.importance import importance, truncated_weights
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.settings import RunSettings

# Two responses to the question, of three tokens and one; and one of two to a neighbor.
MASK = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])
FOREIGN = [False, False, True]
OLD = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, 0.0, 0.0], [-4.0, -1.0, 0.0]])
OWN = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-2.5, -1.5, 0.0]])
ASKED = [OLD[0], OLD[1], OWN[2]]
"""The trainer's log-probs on the prompts that were asked."""


def step(gaps: list[list[float]] | None) -> StepResponses:
    """Return a step whose engine gave log-probs that are `gaps` below the trainer's; None: it gave none."""
    padding = torch.zeros(1, 3, dtype=MASK.dtype)  # a row that verl added
    drawn: list[Any] = [None] * 3
    if gaps is not None:
        lengths = MASK.sum(-1).tolist()
        drawn = [
            np.asarray([float(asked[token]) - gap[token] for token in range(length)])
            for asked, gap, length in zip(ASKED, gaps, lengths, strict=True)
        ]
    about = [{"foreign": foreign, "log_probs": each} for foreign, each in zip(FOREIGN, drawn, strict=True)]
    return StepResponses(
        real_A=torch.tensor([True, False, True, True]),
        mask_AT=torch.cat([MASK[:1], padding, MASK[1:]]),
        about=tuple(about),
        graded=({},) * 3,
        question_B=torch.zeros(3),
        scores_B=torch.zeros(3),
        correct_B=torch.zeros(3),
        unknown_B=torch.zeros(3),
        truncated_B=torch.zeros(3),
        tensors_BT={"old_log_probs": OLD},
    )


NO_GAP = [[0.0] * 3] * 3
GAPS = [[0.5, -0.25, 3.0], [-1.0], [0.25, 0.5]]
TA, CORRECTED = RECIPES["ta_grpo"], RECIPES["ta_grpo_corrected"]


def settings(level: str, **more: Any) -> RunSettings:
    return RunSettings(engine_correction=level, **more)  # type: ignore[arg-type]


def test_a_gap_is_weighed_by_tokens_up_to_the_threshold() -> None:
    weighed = importance(step(GAPS), TA, settings("token"), OWN)
    expected = torch.tensor(
        [[math.exp(0.5), math.exp(-0.25), 2.0], [math.exp(-1.0), 0, 0], [math.exp(0.25), math.exp(0.5), 0]]
    )
    torch.testing.assert_close(weighed.weights_BT, expected)
    assert weighed.compared_B.all()


def test_a_token_is_weighed_with_the_least_likely_before_it() -> None:
    log_ratio = torch.tensor([[0.2, -1.0, 0.5, 0.1], [0.5, 0.25, 3.0, 0.0], [-0.5, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]])
    weights = truncated_weights(log_ratio, mask, "min_prefix", 5.0)
    expected = [
        [math.exp(0.2), math.exp(-1.0 + 0.2), math.exp(0.5 - 1.0), math.exp(0.1 - 1.0)],
        [math.exp(0.5), math.exp(0.25 + 0.5), 5.0, 0.0],
        [math.exp(-0.5), 0.0, 0.0, 0.0],
    ]
    torch.testing.assert_close(weights, torch.tensor(expected))
    # of two tokens it is the product of both; where prompts are alike every weight is 1
    two = truncated_weights(log_ratio[:, :2], mask[:, :2], "min_prefix", 5.0)[:, 1]
    torch.testing.assert_close(two, (log_ratio[:, :2].sum(-1).exp() * mask[:, 1]).float())
    torch.testing.assert_close(truncated_weights(0 * log_ratio, mask, "min_prefix", 5.0), mask.float())
    weighed = importance(step(NO_GAP), CORRECTED, settings("none", correction="min_prefix"), OWN)
    assert weighed.prompt_BT is not None
    torch.testing.assert_close(weighed.prompt_BT[2], torch.tensor([math.exp(-1.5), math.exp(-1.0), 0.0]))


def test_it_is_what_verl_computes_for_a_recipe_without_neighbors() -> None:
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask

    alone = step(GAPS)
    for each in alone.about:
        each["foreign"] = False  # type: ignore[index]
    drawn_BT = alone.sampling_log_probs()
    assert drawn_BT is not None
    for level in ("token", "sequence"):
        of_verl, _, _ = compute_rollout_correction_and_rejection_mask(
            old_log_prob=OLD,
            rollout_log_prob=drawn_BT,
            response_mask=MASK,
            rollout_is=level,
            rollout_is_threshold=2.0,
        )
        ours = importance(alone, RECIPES["grpo"], settings(level)).weights_BT
        torch.testing.assert_close(ours, of_verl.batch["rollout_is_weights"])


def test_engine_and_prompt_are_weighed_apart_with_anchor_corrected() -> None:
    weighed = importance(step(GAPS), CORRECTED, settings("token"), OWN)
    assert weighed.engine_BT is not None
    assert weighed.prompt_BT is not None
    on_prompt = torch.tensor([[1.0, 1, 1], [1, 0, 0], [math.exp(-1.5), math.exp(0.5), 0]])
    torch.testing.assert_close(weighed.prompt_BT, on_prompt)
    torch.testing.assert_close(weighed.weights_BT, on_prompt * weighed.engine_BT)
    assert weighed.log_ratio_B is not None
    torch.testing.assert_close(weighed.log_ratio_B, torch.tensor([0.0, 0.0, -1.0]).double())


def test_an_engine_without_log_probs_is_refused_where_weights_are_wanted() -> None:
    assert importance(step(None), TA, settings("none")).weights_BT is None
    for recipe, level in ((TA, "token"), (CORRECTED, "none")):
        with pytest.raises(RuntimeError, match="returned no log-probs for"):
            importance(step(None), recipe, settings(level))
