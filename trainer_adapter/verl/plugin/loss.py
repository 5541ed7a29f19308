"""The loss in verl's workers: a recipe's own, since verl's has a dual clip and counts padding."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from verl.utils.metric import Metric
from verl.workers.utils.padding import no_padding_2_padding

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.losses.aggregation import aggregate
from trainer_adapter.methods.losses.kl import kl_estimate
from trainer_adapter.methods.losses.policy import Surrogate
from trainer_adapter.methods.recipes import Loss
from trainer_adapter.methods.registry import call, find_formula

SCALE_FIELD = "tagrpo_scale"
"""Values that the trainer writes next to each response, for the loss.

The number of real responses of its mini-batch; 1 if the KL penalty covers the response; the numbers of
responses and of tokens of its mini-batch that the penalty covers. A worker sees one micro-batch including
padding, so it cannot count them.
"""


@dataclass(frozen=True)
class LossTerms:
    """Settings of the loss."""

    loss: Loss  # the recipe's loss axis
    response_length: int  # divisor of Dr.GRPO's aggregation
    entropy_coef: float = 0.0  # weight of an entropy bonus, verl's `entropy_coeff`


def recipe_loss(
    model_output: Any, data: Any, dp_group: Any = None, *, terms: LossTerms
) -> tuple[Tensor, dict[str, Any]]:
    """Return the loss of a micro-batch, to be summed over micro-batches, and verl's metrics of it.

    It is a mean over real responses (or tokens) of the whole mini-batch on all ranks.
    """
    new_BT = no_padding_2_padding(model_output["log_probs"], data)
    entropy = model_output.get("entropy")
    entropy_BT = None if entropy is None else no_padding_2_padding(entropy, data)
    ranks, tokens = int(data["dp_size"]), max(1.0, float(data["batch_num_tokens"]))
    wanted = ["response_mask", "old_log_probs", "advantages", "rollout_is_weights", "ref_log_prob"]
    held = [name for name in (*wanted, SCALE_FIELD) if name in data]
    fields = data.select(*held).to_padded_tensor()
    scale_B4, loss = fields[SCALE_FIELD].to(torch.float64), terms.loss
    mask_BT = fields["response_mask"].to(new_BT.dtype)
    surrogate = call(
        find_formula("surrogate", loss.surrogate),
        new_BT,
        fields["old_log_probs"],
        fields["advantages"],
        clip_low=loss.clip_low,
        clip_high=loss.clip_high,
        dual_clip=loss.dual_clip,
        mask_BT=mask_BT,
    )
    policy_BT = surrogate.loss_BT if isinstance(surrogate, Surrogate) else surrogate
    if policy_BT.shape != mask_BT.shape:
        raise ValueError(
            f"surrogate {loss.surrogate}: returned shape {tuple(policy_BT.shape)} instead of "
            f"{tuple(mask_BT.shape)}"
        )
    if "rollout_is_weights" in held:
        policy_BT = policy_BT * fields["rollout_is_weights"]
    mean = partial(aggregate, mode=loss.aggregation, ranks=ranks, scale=terms.response_length)
    responses = max(1.0, float(scale_B4[0, 0]))
    policy = mean(policy_BT, mask_BT, responses=responses, tokens=tokens)
    total = policy
    metrics = {
        "actor/pg_loss": policy,
        "actor/ppo_kl": _share(fields["old_log_probs"] - new_BT.detach(), mask_BT, ranks, tokens),
    }
    if isinstance(surrogate, Surrogate):
        metrics["actor/pg_clipfrac"] = _share(surrogate.clipped_BT, mask_BT, ranks, tokens)
        metrics["actor/pg_clipfrac_lower"] = _share(surrogate.dual_clipped_BT, mask_BT, ranks, tokens)
    if entropy_BT is not None:
        bonus = mean(entropy_BT, mask_BT, responses=responses, tokens=tokens)
        metrics["actor/entropy_loss"] = bonus
        if terms.entropy_coef:
            total = total - terms.entropy_coef * bonus
    if loss.kl_coef > 0:
        kl_BT = kl_estimate(new_BT, fields["ref_log_prob"], loss.kl)
        looked_at_BT = mask_BT * scale_B4[:, 1:2].to(mask_BT.dtype)
        responses, tokens = (max(1.0, float(each)) for each in scale_B4[0, 2:])
        kl = mean(kl_BT, looked_at_BT, responses=responses, tokens=tokens)
        total = total + loss.kl_coef * kl
        metrics["kl_loss"] = kl
    summed = {name: Metric("sum", value) for name, value in metrics.items()}
    return total, {**summed, **({"kl_coef": loss.kl_coef} if loss.kl_coef > 0 else {})}


def _share(values_BT: Tensor, mask_BT: Tensor, ranks: int, tokens: float) -> Tensor:
    """Return this micro-batch's part of a mean over the mini-batch's tokens."""
    return (values_BT.to(mask_BT.dtype).where(mask_BT > 0, 0.0)).sum() * ranks / tokens


def scale_rows(mask_BT: Tensor, kl_B: Tensor, *, mini_batch: int, ranks: int) -> Tensor:
    """Return the value of `SCALE_FIELD` for each row of verl's batch, shape [B, 4], float64."""
    real_B = mask_BT.sum(-1) > 0
    kl_B = kl_B.to(torch.bool) & real_B
    rows = len(real_B)
    if mini_batch % ranks or rows % mini_batch:
        raise ValueError(f"{rows} rows cannot be split into mini-batches of {mini_batch} on {ranks} ranks")
    part = rows // ranks
    index_B = torch.arange(rows) % part // (mini_batch // ranks)
    count = part // (mini_batch // ranks)
    counted = (real_B.double(), kl_B.double(), mask_BT.sum(-1).double() * kl_B)
    sums = [torch.zeros(count, dtype=torch.float64).index_add_(0, index_B, each) for each in counted]
    responses, kl_responses, kl_tokens = (each[index_B] for each in sums)
    return torch.stack([responses, kl_B.double(), kl_responses, kl_tokens], dim=-1)
