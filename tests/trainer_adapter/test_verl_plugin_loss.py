"""The loss in verl's workers, called as a worker calls it: padding counts nowhere, parts make the whole."""

from typing import Any

import pytest
import torch

from trainer_adapter.methods.recipes import Loss

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
        self.log_probs = [
            (-torch.rand(PROMPT + length, generator=generator)).requires_grad_() for length in LENGTHS
        ]

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


def test_the_mean_is_over_real_responses() -> None:
    batch = MiniBatch()
    loss, metrics = batch.loss(EQ_4)
    expected = sum(batch.surrogate(row).mean() for row in REAL) / 5
    torch.testing.assert_close(loss, expected)
    assert metrics["actor/pg_loss"].aggregate() == pytest.approx(float(expected))
    assert "kl_loss" not in metrics


def test_the_penalty_looks_at_the_responses_it_is_told_to() -> None:
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


def test_importance_weights_multiply_the_surrogate() -> None:
    batch = MiniBatch(weighted=True)
    loss, _ = batch.loss(EQ_4)
    expected = sum((batch.surrogate(row) * batch.weights[row]).mean() for row in REAL) / 5
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean", "seq-mean-token-sum-norm"])
def test_micro_batches_add_up_to_the_whole(aggregation: Any) -> None:
    loss = Loss(kl_coef=0.5, aggregation=aggregation)
    batch = MiniBatch()
    whole, whole_metrics = batch.loss(loss)
    parts = [batch.loss(loss, rows) for rows in ([0, 1], [2, 5], [3, 4])]
    torch.testing.assert_close(sum(part for part, _ in parts), whole)
    for name in ("actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl", "kl_loss"):
        total = sum(metrics[name].aggregate() for _, metrics in parts)
        assert total == pytest.approx(whole_metrics[name].aggregate(), abs=1e-6)


def test_ranks_average_to_the_whole() -> None:
    batch = MiniBatch()
    whole, _ = batch.loss(Loss())
    ranks = [batch.loss(Loss(), rows, ranks=2)[0] for rows in ([0, 1, 2], [3, 4, 5])]
    torch.testing.assert_close(sum(ranks) / 2, whole)


def test_rows_are_counted_by_mini_batch_and_rank() -> None:
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


def test_the_estimator_hands_out_what_the_trainer_left() -> None:
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
