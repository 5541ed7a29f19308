"""The loss in verl's workers, its importance weights, and groups that are replayed."""

import math
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from trainer_adapter.methods.recipes import RECIPES, Loss
from trainer_adapter.methods.replaying import MixedGroup, MixedGroups, replay_weights
from trainer_adapter.verl.plugin.importance import importance, truncated_weights
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.settings import RunSettings
from trainer_adapter.verl.plugin.steps.replaying import ReplayStep

PROMPT, LENGTHS = 3, (4, 2, 5, 1, 3, 1)
PADDING = 5
"""The row that verl added, of one token that is masked."""


def nested(rows: list[Any]) -> Any:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


class MiniBatch:
    """Six rows of a mini-batch, the last one padding, and what the model says of them."""

    def __init__(self, *, weighted: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        self.weighted = weighted
        draws = [-torch.rand(PROMPT + length, generator=generator) for length in LENGTHS]
        self.log_probs = [each.requires_grad_() for each in draws]

        def draw() -> list[Any]:
            return [-torch.rand(length, generator=generator) for length in LENGTHS]

        self.old, self.ref, self.weights = draw(), draw(), [each.abs() for each in draw()]
        self.advantages = [each - each.mean() + 0.5 for each in draw()]
        self.mask = [torch.ones(length, dtype=torch.long) for length in LENGTHS]
        self.mask[PADDING] = torch.zeros(1, dtype=torch.long)
        self.kl = torch.tensor([True, False, True, False, False, False])

    def new(self, row: int) -> Any:
        """Return the log-probs of a row's response: the model's are those of the next token."""
        return self.log_probs[row][PROMPT - 1 : -1]

    def scales(self, *, mini_batch: int = 6, ranks: int = 1) -> Any:
        from trainer_adapter.verl.plugin.loss import scale_rows

        mask_BT = torch.nn.utils.rnn.pad_sequence(self.mask, batch_first=True)
        return scale_rows(mask_BT, self.kl, mini_batch=mini_batch, ranks=ranks)

    def loss(self, loss: Loss, rows: list[int] | None = None, *, ranks: int = 1, **terms: Any) -> Any:
        """Return loss and metrics of some of the rows as a micro-batch."""
        from tensordict import TensorDict
        from verl.utils import tensordict_utils

        from trainer_adapter.verl.plugin.loss import SCALE_FIELD, LossTerms, recipe_loss

        rows = list(range(len(LENGTHS))) if rows is None else rows
        fields: dict[str, Any] = {
            "prompts": nested([torch.ones(PROMPT, dtype=torch.long) for _ in rows]),
            "responses": nested([torch.ones(LENGTHS[row], dtype=torch.long) for row in rows]),
            "response_mask": nested([self.mask[row] for row in rows]),
            "old_log_probs": nested([self.old[row] for row in rows]),
            "ref_log_prob": nested([self.ref[row] for row in rows]),
            "advantages": nested([self.advantages[row] for row in rows]),
            SCALE_FIELD: self.scales()[rows],
        }
        if self.weighted:
            fields["rollout_is_weights"] = nested([self.weights[row] for row in rows])
        data = TensorDict(fields, batch_size=len(rows))
        tokens = sum(int(mask.sum()) for mask in self.mask)
        tensordict_utils.assign_non_tensor(data, dp_size=ranks, batch_num_tokens=tokens)
        output = {"log_probs": nested([self.log_probs[row] for row in rows])}
        return recipe_loss(model_output=output, data=data, terms=LossTerms(loss, 10, **terms))

    def surrogate(self, row: int) -> Any:
        """Return -min(r A, clip(r) A) of a row's tokens, written out."""
        ratio = torch.exp(self.new(row) - self.old[row])
        clipped = ratio.clamp(0.8, 1.2)
        return -torch.minimum(ratio * self.advantages[row], clipped * self.advantages[row])

    def divergence(self, row: int) -> Any:
        apart = self.ref[row] - self.new(row)
        return torch.exp(apart) - apart - 1


REAL = range(PADDING)
EQ_4 = Loss(kl_coef=0.0)


def test_the_mean_is_over_real_responses():
    batch = MiniBatch()
    loss, metrics = batch.loss(EQ_4)
    expected = sum(batch.surrogate(row).mean() for row in REAL) / 5
    torch.testing.assert_close(loss, expected)
    assert metrics["actor/pg_loss"].aggregate() == pytest.approx(float(expected))
    assert "kl_loss" not in metrics


def test_the_penalty_looks_at_the_responses_it_is_told_to():
    batch = MiniBatch()
    loss, metrics = batch.loss(Loss(kl_coef=0.5))
    penalty = (batch.divergence(0).mean() + batch.divergence(2).mean()) / 2
    expected = sum(batch.surrogate(row).mean() for row in REAL) / 5 + 0.5 * penalty
    torch.testing.assert_close(loss, expected)
    assert metrics["kl_loss"].aggregate() == pytest.approx(float(penalty))
    assert metrics["kl_coef"] == 0.5
    loss, _ = batch.loss(Loss(kl_coef=0.5, aggregation="token-mean"))
    penalty = (batch.divergence(0).sum() + batch.divergence(2).sum()) / 9
    expected = sum(batch.surrogate(row).sum() for row in REAL) / 15 + 0.5 * penalty
    torch.testing.assert_close(loss, expected)


def test_importance_weights_multiply_the_surrogate():
    batch = MiniBatch(weighted=True)
    loss, _ = batch.loss(EQ_4)
    expected = sum((batch.surrogate(row) * batch.weights[row]).mean() for row in REAL) / 5
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean", "seq-mean-token-sum-norm"])
def test_micro_batches_add_up_to_the_whole(aggregation):
    loss = Loss(kl_coef=0.5, aggregation=aggregation)
    batch = MiniBatch()
    whole, whole_metrics = batch.loss(loss)
    parts = [batch.loss(loss, rows) for rows in ([0, 1], [2, 5], [3, 4])]
    torch.testing.assert_close(sum(part for part, _ in parts), whole)
    for name in ("actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl", "kl_loss"):
        total = sum(metrics[name].aggregate() for _, metrics in parts)
        assert total == pytest.approx(whole_metrics[name].aggregate(), abs=1e-6)


def test_ranks_average_to_the_whole():
    batch = MiniBatch()
    whole, _ = batch.loss(Loss())
    ranks = [batch.loss(Loss(), rows, ranks=2)[0] for rows in ([0, 1, 2], [3, 4, 5])]
    torch.testing.assert_close(sum(ranks) / 2, whole)


def test_rows_are_counted_by_mini_batch_and_rank():
    from trainer_adapter.verl.plugin.loss import scale_rows

    mask = torch.tensor([[1, 1], [1, 0], [0, 0], [1, 1], [1, 1], [0, 0], [1, 0], [1, 1]])
    kl = torch.tensor([True, False, True, True, False, False, True, True])
    # Two ranks of four rows, mini-batches of two rows each rank: rows 0, 1, 4, 5 and rows 2, 3, 6, 7.
    scales = scale_rows(mask, kl, mini_batch=4, ranks=2)
    assert scales[:, 0].tolist() == [3, 3, 3, 3, 3, 3, 3, 3]
    assert scales[:, 1].tolist() == [1, 0, 0, 1, 0, 0, 1, 1]
    assert scales[:, 2].tolist() == [1, 1, 3, 3, 1, 1, 3, 3]
    assert scales[:, 3].tolist() == [2, 2, 5, 5, 2, 2, 5, 5]
    one_rank = scale_rows(mask, kl, mini_batch=4, ranks=1)
    assert one_rank[:, 0].tolist() == [3, 3, 3, 3, 3, 3, 3, 3]
    assert one_rank[:, 3].tolist() == [4, 4, 4, 4, 3, 3, 3, 3]
    with pytest.raises(ValueError, match="8 rows cannot be split into mini-batches of 3"):
        scale_rows(mask, kl, mini_batch=3, ranks=1)


def test_the_estimator_hands_out_what_the_trainer_left():
    from trainer_adapter.verl.plugin.steps.advantages import estimate_advantages, hand_over

    rewards, mask = torch.zeros(2, 3), torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="trainer_mode=tagrpo"):
        estimate_advantages(rewards, mask)
    hand_over(torch.arange(6.0).reshape(2, 3))
    advantages, returns = estimate_advantages(rewards, mask, index=["a", "b"], config=None)
    assert torch.equal(advantages, torch.arange(6.0).reshape(2, 3))
    assert torch.equal(returns, advantages)
    hand_over(torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match=r"shape \(2, 2\)"):
        estimate_advantages(rewards, mask)


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


def test_a_gap_is_weighed_by_tokens_up_to_the_threshold():
    weighed = importance(step(GAPS), TA, settings("token"), OWN)
    expected = torch.tensor(
        [[math.exp(0.5), math.exp(-0.25), 2.0], [math.exp(-1.0), 0, 0], [math.exp(0.25), math.exp(0.5), 0]]
    )
    torch.testing.assert_close(weighed.weights_BT, expected)
    assert weighed.compared_B.all()


def test_a_token_is_weighed_with_the_least_likely_before_it():
    log_ratio = torch.tensor([[0.2, -1.0, 0.5, 0.1], [0.5, 0.25, 3.0, 0.0], [-0.5, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]])
    weights = truncated_weights(log_ratio, mask, "min_prefix", 5.0)
    logs = torch.tensor(
        [[0.2, -1.0 + 0.2, 0.5 - 1.0, 0.1 - 1.0], [0.5, 0.25 + 0.5, math.log(5.0), 0], [-0.5, 0, 0, 0]]
    )
    torch.testing.assert_close(weights, logs.exp() * mask)
    # of two tokens it is the product of both; where prompts are alike every weight is 1
    two = truncated_weights(log_ratio[:, :2], mask[:, :2], "min_prefix", 5.0)[:, 1]
    torch.testing.assert_close(two, (log_ratio[:, :2].sum(-1).exp() * mask[:, 1]).float())
    torch.testing.assert_close(truncated_weights(0 * log_ratio, mask, "min_prefix", 5.0), mask.float())
    weighed = importance(step(NO_GAP), CORRECTED, settings("none", correction="min_prefix"), OWN)
    torch.testing.assert_close(weighed.prompt_BT[2], torch.tensor([math.exp(-1.5), math.exp(-1.0), 0.0]))


def test_it_is_what_verl_computes_for_a_recipe_without_neighbors():
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask

    alone = step(GAPS)
    for each in alone.about:
        each["foreign"] = False  # type: ignore[index]
    drawn_BT = alone.sampling_log_probs()
    for level in ("token", "sequence"):
        drawn = {"old_log_prob": OLD, "rollout_log_prob": drawn_BT, "response_mask": MASK}
        limits = {"rollout_is": level, "rollout_is_threshold": 2.0}
        of_verl, _, _ = compute_rollout_correction_and_rejection_mask(**drawn, **limits)
        ours = importance(alone, RECIPES["grpo"], settings(level)).weights_BT
        torch.testing.assert_close(ours, of_verl.batch["rollout_is_weights"])


def test_engine_and_prompt_are_weighed_apart_with_anchor_corrected():
    weighed = importance(step(GAPS), CORRECTED, settings("token"), OWN)
    on_prompt = torch.tensor([[1.0, 1, 1], [1, 0, 0], [math.exp(-1.5), math.exp(0.5), 0]])
    torch.testing.assert_close(weighed.prompt_BT, on_prompt)
    torch.testing.assert_close(weighed.weights_BT, on_prompt * weighed.engine_BT)
    torch.testing.assert_close(weighed.log_ratio_B, torch.tensor([0.0, 0.0, -1.0]).double())


def test_an_engine_without_log_probs_is_refused_where_weights_are_wanted():
    assert importance(step(None), TA, settings("none")).weights_BT is None
    for recipe, level in ((TA, "token"), (CORRECTED, "none")):
        with pytest.raises(RuntimeError, match="returned no log-probs for"):
            importance(step(None), recipe, settings(level))


def group(question: str, step: int) -> MixedGroup:
    return MixedGroup(question, step, [f"{question}{step}"])


def named(groups: Sequence[MixedGroup]) -> list[str]:
    return [row for each in groups for row in each.rows]


def test_the_latest_groups_come_first_and_a_question_has_one():
    memory = MixedGroups(steps=3, most=9)
    assert memory.choose(2, 1) == []
    memory.keep([group("a", 1), group("b", 1)])
    memory.keep([group("c", 2), group("a", 2)])
    assert named(memory.choose(9, 3)) == ["a2", "c2", "b1"]
    assert named(memory.choose(2, 3)) == ["a2", "c2"]
    assert named(memory.choose(9, 3, {"a", "x"})) == ["c2", "b1"]
    assert named(memory.choose(9, 4)) == ["a2", "c2", "b1"]  # replayed, and there again
    assert named(memory.choose(9, 5)) == ["a2", "c2"]  # b1 is four steps old
    assert len(memory) == 2


def test_a_token_weighs_what_the_page_derives():
    """By hand in docs/reference/methods.md: .3 / .2, .3 / .6, and .9 / .3 cut at 2."""
    old, drawn = torch.tensor([0.3, 0.3, 0.9]).log(), torch.tensor([0.2, 0.6, 0.3]).log()
    torch.testing.assert_close(replay_weights(old, drawn, 2.0), torch.tensor([1.5, 0.5, 2.0]))
    assert (replay_weights(old, old, 2.0) == 1).all()


def test_what_was_kept_goes_with_a_checkpoint_that_verl_has_removed(tmp_path):
    """verl (0.9.1, `checkpoint_manager.py`) removes `actor` of an earlier step, and leaves the rest."""
    replaying = ReplayStep(steps=5, most=4, threshold=2.0)
    for step in (1, 2, 3):
        replaying.save(tmp_path / f"global_step_{step}")
        (tmp_path / f"global_step_{step}" / "actor").mkdir()
    shutil.rmtree(tmp_path / "global_step_1" / "actor")
    replaying.save(tmp_path / "global_step_4")
    left = sorted(path.parent.name for path in tmp_path.glob("*/tagrpo_mixed_groups.pt"))
    assert left == ["global_step_2", "global_step_3", "global_step_4"]
