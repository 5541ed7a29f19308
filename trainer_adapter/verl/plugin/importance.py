"""Importance weights of responses: between rollout engine and trainer, and between two prompts.

The engine drew a response on the sampled prompt; the loss uses the trainer's log-probs on the anchor. The
weight between them has two parts. The first goes from engine to trainer on the sampled prompt, and every
recipe may correct it. The second goes from that prompt to the anchor, and anchor corrected weights it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.plugin.images.positions import positions_of
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.settings import SETTINGS_KEY, RunSettings
from trainer_adapter.verl.transfer import add_rows, read_rows, remove_rows

_MOST_NATS = 20.0
"""Bound on a log-ratio, as in verl's rollout correction."""


class Importance(NamedTuple):
    """Importance ratios and weights of a step's responses."""

    # log of trainer over engine on the sampled prompt; 0 if it was not compared
    engine_ratio_BT: Tensor | None
    compared_B: Tensor  # whether it was: always on the anchor, on other prompts if the trainer evaluated them
    # log of the anchor over the sampled prompt, of a whole response; None without the engine's log-probs
    log_ratio_B: Tensor | None
    engine_BT: Tensor | None  # truncated weights of the first part; None if not needed
    prompt_BT: Tensor | None  # truncated weights of the second part; None for anchors other than corrected

    @property
    def weights_BT(self) -> Tensor | None:
        """The product of both for the loss; None if there are none."""
        if self.engine_BT is None or self.prompt_BT is None:
            return self.prompt_BT if self.engine_BT is None else self.engine_BT
        return self.engine_BT * self.prompt_BT


def importance(
    responses: StepResponses, recipe: Recipe, settings: RunSettings, own_BT: Tensor | None = None
) -> Importance:
    """Return the weights of a step, as verl's rollout correction computes them.

    Args:
        own_BT: the trainer's log-probs on the sampled prompts, for responses with another anchor; None uses
            the engine's instead, so that the anchor's weight contains both parts.
    """
    foreign_B, drawn_BT = responses.numbers("foreign") > 0, responses.sampling_log_probs()
    if drawn_BT is None:
        if settings.corrects_engine or recipe.anchor == "corrected":
            raise RuntimeError(
                "the rollout engine returned no log-probs for importance weights. Set "
                f"{SETTINGS_KEY}.engine_correction=none and choose an anchor other than corrected"
            )
        return Importance(None, torch.zeros_like(foreign_B), None, None, None)
    mask_BT = responses.mask_AT[responses.real_A]
    old_BT = responses.tensors_BT["old_log_probs"].double()
    asked_BT = torch.where(foreign_B[:, None], (drawn_BT if own_BT is None else own_BT).double(), old_BT)
    engine_ratio_BT, prompt_ratio_BT = (
        values.where(mask_BT > 0, 0.0) for values in (asked_BT - drawn_BT, old_BT - asked_BT)
    )
    engine_BT = prompt_BT = None
    if settings.corrects_engine:
        level = str(settings.engine_correction)
        engine_BT = truncated_weights(engine_ratio_BT, mask_BT, level, settings.engine_threshold)
    if recipe.anchor == "corrected":
        level = settings.correction
        prompt_BT = truncated_weights(prompt_ratio_BT, mask_BT, level, settings.correction_threshold)
    compared_B = torch.ones_like(foreign_B) if own_BT is not None else ~foreign_B
    return Importance(engine_ratio_BT.float(), compared_B, prompt_ratio_BT.sum(-1), engine_BT, prompt_BT)


def truncated_weights(ratio_BT: Tensor, mask_BT: Tensor, level: str, threshold: float) -> Tensor:
    """Return min(exp(log ratio), threshold) of tokens, or of whole responses on each of their tokens.

    This is verl's `rollout_is`. With `min_prefix`, a token's ratio is multiplied by the smallest earlier
    ratio in its response (MinPRO, arXiv 2601.22718).
    """
    if level == "min_prefix":
        before_BT = ratio_BT.cummin(-1).values.roll(1, -1)
        before_BT[:, 0] = 0.0
        ratio_BT = ratio_BT + before_BT
    if level == "sequence":
        ratio_BT = (ratio_BT * mask_BT).sum(-1, keepdim=True).expand_as(ratio_BT)
    weights_BT = ratio_BT.clamp(-_MOST_NATS, _MOST_NATS).exp() * mask_BT
    return weights_BT.clamp(max=threshold).float()


def own_log_probs(
    batch: Any,
    responses: StepResponses,
    processor: Any,
    log_probs: Callable[[Sequence[dict[str, Any]]], Sequence[Tensor]],
) -> Tensor | None:
    """Return the trainer's log-probs of responses on the sampled prompts, if those are not the anchors.

    Shape [B, T], 0 for all other responses; None if there are no such responses. `log_probs` computes those
    of rows outside the step's batch.
    """
    lengths = responses.mask_AT[responses.real_A].sum(-1).tolist()
    rows = [row for row, about in enumerate(responses.about) if about["foreign"]]
    if not rows:
        return None
    seen = [{}] * len(rows) if processor is None else _seen(batch, responses, rows)
    samples = [
        _sample(responses, row, lengths[row], processor, images)
        for row, images in zip(rows, seen, strict=True)
    ]
    own_BT = torch.zeros_like(responses.tensors_BT["old_log_probs"])
    for row, of_row in zip(rows, log_probs(samples), strict=True):
        own_BT[row, : lengths[row]] = of_row.to(own_BT.dtype)
    return own_BT


def log_probs_of(
    samples: Sequence[dict[str, Any]],
    batch: Any,
    workers: Any,
    *,
    ranks: int,
    temperature: float,
    micro_batch: int,
) -> list[Tensor]:
    """Return the trainer's log-probs of the tokens of each response outside the step's batch.

    They go to the workers under separate names, with similar lengths on each rank.
    """
    by_length = sorted(range(len(samples)), key=lambda place: len(samples[place]["input_ids"]))
    by_length += [by_length[0]] * (-len(samples) % (ranks * micro_batch))
    order = [place for rank in range(ranks) for place in by_length[rank::ranks]]
    samples = [samples[place] for place in order]
    handle = type(batch)(
        partition_id=batch.partition_id,
        keys=[f"asked-{place}_0_0" for place in range(len(order))],
        tags=[{"seq_len": len(sample["input_ids"])} for sample in samples],
        fields=list(samples[0]),
        extra_info={"calculate_entropy": False, "compute_loss": False, "temperature": temperature},
    )
    add_rows(handle, handle.keys, samples, handle.tags)
    try:
        workers.compute_log_prob(handle)
        log_probs = read_rows(handle, ["log_probs"])["log_probs"]
    finally:
        remove_rows(handle, handle.keys)
    values, ends = log_probs.values(), log_probs.offsets()[1:].tolist()
    # verl keeps them one before their token.
    in_order = [
        values[end - len(sample["responses"]) - 1 : end - 1]
        for end, sample in zip(ends, samples, strict=True)
    ]
    by_place = dict(zip(order, in_order, strict=True))
    return [by_place[place] for place in range(len(by_place))]


def _seen(batch: Any, responses: StepResponses, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the model's inputs for the images of these rows, from verl's queue."""
    keys = [key for key, real in zip(batch.keys, responses.real_A.tolist(), strict=True) if real]
    data = read_rows(batch, ["multi_modal_inputs"], [keys[row] for row in rows])
    return [getattr(held, "data", held) for held in data["multi_modal_inputs"]]


def _sample(
    responses: StepResponses, row: int, length: int, processor: Any, seen: dict[str, Any]
) -> dict[str, Any]:
    prompt = torch.as_tensor(responses.about[row]["prompt_ids"], dtype=torch.int64)
    response = responses.tensors_BT["responses"][row, :length].long()
    tokens, ones = torch.cat([prompt, response]), torch.ones(length, dtype=torch.int64)
    return {
        "prompts": prompt,
        "responses": response,
        "input_ids": tokens,
        "position_ids": positions_of(processor, tokens, seen),
        "response_mask": ones,
        "loss_mask": ones,
        **({} if processor is None else {"multi_modal_inputs": seen}),
    }
