"""verl's advantage estimator, which returns the advantages that the trainer computed.

verl calls an estimator with rewards and group names only; token weights need log-probs, filters and reward
shaping need correctness. So the trainer computes advantages and verl writes them.
"""

from typing import Any

from trainer_adapter.methods.groups import Tensor

_computed: list[Tensor] = []


def hand_over(advantages_AT: Tensor) -> None:
    """Keep the advantages of every row of verl's batch, including padding rows, for its next call."""
    _computed[:] = [advantages_AT]


def computed_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, **_: Any
) -> tuple[Tensor, Tensor]:
    """Return the trainer's advantages, and the same values as returns: verl's advantage estimator.

    Raises:
        RuntimeError: there are none, or they belong to another batch: it works with tagrpo's trainer only.
    """
    if not _computed:
        raise RuntimeError(
            "algorithm.adv_estimator=tagrpo needs tagrpo's trainer. Set trainer.v1.trainer_mode=tagrpo"
        )
    advantages_BT = _computed.pop().to(token_level_rewards.dtype)
    if advantages_BT.shape != response_mask.shape:
        raise RuntimeError(
            f"advantages have shape {tuple(advantages_BT.shape)}, the batch {tuple(response_mask.shape)}"
        )
    return advantages_BT, advantages_BT
