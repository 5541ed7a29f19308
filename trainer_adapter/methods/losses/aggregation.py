"""Aggregation of a loss on every token to one number."""

from typing import Literal, TypeAlias

from trainer_adapter.methods.groups import Tensor

Aggregation: TypeAlias = Literal[
    "token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]
REPO_EPSILON = 1e-8  # verl's value, added to the tokens of a response


def aggregate(
    loss_BT: Tensor,
    mask_BT: Tensor,
    mode: Aggregation,
    *,
    responses: float | None = None,
    tokens: float | None = None,
    ranks: int = 1,
    scale: float | None = None,
    epsilon: float = 0.0,
) -> Tensor:
    """Return the aggregated loss, a scalar.

    - `token-mean`: over all tokens of the batch (DAPO, arXiv 2503.14476).
    - `token-sum`: no division.
    - `seq-mean-token-mean`: over the tokens of a response, then over responses (TA-GRPO, arXiv 2601.22478,
      Eq. 4; GRPO).
    - `seq-mean-token-sum`: the tokens' sum, mean over responses (Dr.GRPO, arXiv 2503.20783).
    - `seq-mean-token-sum-norm`: the same divided by a constant, as in verl 0.9.1.

    Responses without a token, such as padding rows, do not count.

    Args:
        responses: Responses of the whole batch, if this is a micro-batch of one rank; default: those here.
        tokens: Tokens of the whole batch; default: those here.
        ranks: Data-parallel ranks whose gradients are averaged afterwards.
        scale: Constant of `seq-mean-token-sum-norm`; default: the padded length T.
        epsilon: Added to a response's token count in `seq-mean-token-mean`; verl has 1e-8.
    """
    mask_BT = mask_BT.to(loss_BT.dtype)
    # Padding may contain anything, including infinities.
    loss_BT = loss_BT.where(mask_BT > 0, 0.0)
    if mode in ("token-mean", "token-sum"):
        if mode == "token-sum":
            return loss_BT.sum() * ranks
        if tokens is None:
            _need_whole(ranks, "tokens")
        return loss_BT.sum() / (mask_BT.sum().clamp(min=1) if tokens is None else tokens) * ranks
    lengths_B = mask_BT.sum(-1)
    sums_B = loss_BT.sum(-1)
    if mode == "seq-mean-token-mean":
        losses_B = (sums_B / (lengths_B + epsilon)).where(lengths_B > 0, 0.0)
    elif mode in ("seq-mean-token-sum", "seq-mean-token-sum-norm"):
        losses_B = sums_B
    else:
        raise ValueError(f"unknown aggregation {mode!r}")
    if responses is None:
        _need_whole(ranks, "responses")
    loss: Tensor = losses_B.sum() / ((lengths_B > 0).sum().clamp(min=1) if responses is None else responses)
    if mode == "seq-mean-token-sum-norm":
        loss = loss / (loss_BT.shape[-1] if scale is None else scale)
    return loss * ranks


def _need_whole(ranks: int, what: str) -> None:
    if ranks > 1:
        raise ValueError(f"with {ranks} ranks, pass the number of {what} of the whole batch")
