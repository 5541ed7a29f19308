"""The advantage estimator: the trainer's advantages, or the recipe's with verl's own trainer.

verl calls an estimator with rewards and group names only, so tagrpo's trainer computes advantages itself and
the estimator returns them. With verl's own trainer the estimator computes them, for recipes of tier 1.
"""

from typing import Any

import torch

from trainer_adapter.methods.groups import Tensor

_computed: list[Tensor] = []


def hand_over(advantages_AT: Tensor) -> None:
    """Keep the advantages of every row of verl's batch, including padding rows, for its next call."""
    _computed[:] = [advantages_AT]


def estimate_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, config: Any = None, index: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """Return the advantages of every row, and the same values as returns: verl's advantage estimator."""
    if _computed:
        advantages_AT = _computed.pop().to(token_level_rewards.dtype)
    else:
        advantages_AT = _tier_1_advantages(token_level_rewards, response_mask, config, index)
    if advantages_AT.shape != response_mask.shape:
        raise RuntimeError(
            f"advantages have shape {tuple(advantages_AT.shape)}, the batch {tuple(response_mask.shape)}"
        )
    return advantages_AT, advantages_AT


def _tier_1_advantages(rewards_AT: Tensor, mask_AT: Tensor, config: Any, index: Any) -> Tensor:
    """Return the recipe's advantages from rewards, lengths and questions; 0 at padding rows."""
    from omegaconf import DictConfig, OmegaConf

    from trainer_adapter.methods.step_advantages import step_advantages
    from trainer_adapter.verl.plugin.settings import recipe_of, settings_of
    from trainer_adapter.verl.plugin.steps.recording import record_tier_1

    plain: Any = {}
    if isinstance(config, DictConfig):
        plain = OmegaConf.to_container(config._get_root(), resolve=True)
    settings = settings_of(plain)
    if settings.trainer != "verl":
        raise RuntimeError(
            "algorithm.adv_estimator=tagrpo needs tagrpo's trainer. Set trainer.v1.trainer_mode=tagrpo, or "
            "train with run.trainer=verl"
        )
    recipe = recipe_of(plain)
    real_A = mask_AT.sum(-1) > 0
    questions = [name for name, is_real in zip(index, real_A.tolist(), strict=True) if is_real]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(questions))}
    scores_B = rewards_AT[real_A].sum(-1).double()
    made = step_advantages(
        recipe,
        scores_B,
        scores_B > 0,
        mask_AT[real_A],
        rewards_AT[real_A].float(),  # in place of log-probs: only token weights read their values
        torch.tensor([numbers[name] for name in questions]),
        max_length=plain["data"]["max_response_length"],
        overlong_buffer=settings.overlong_buffer,
    )
    advantages_AT = torch.zeros_like(rewards_AT)
    advantages_AT[real_A] = made.advantages_BT.to(rewards_AT.dtype)
    if settings.record is not None:
        record_tier_1(plain, recipe, settings, questions, scores_B, mask_AT[real_A].sum(-1), made)
    return advantages_AT
