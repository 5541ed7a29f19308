"""A step's responses in words, and the rollout record that they go into."""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.record.step_batch import StepBatch
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.settings import RunSettings

_LOG = logging.getLogger("tagrpo.rollouts")

# The database comes with them, and this module is loaded in every process of verl.
if TYPE_CHECKING:
    from trainer_adapter.record.step_batch import StepTexts
    from trainer_adapter.record.writing import RolloutWriter


def open_record(config: Mapping[str, Any], recipe: Recipe, settings: RunSettings) -> "RolloutWriter | None":
    """Return the writer of the rollout record; None where none is kept.

    Raises:
        InputError: the folder belongs to another run, or cannot be written.
    """
    if settings.record is None:
        return None
    from service.runs.store import package_versions
    from trainer_adapter.record.writing import RolloutWriter

    spec = {
        "recipe": recipe.to_json(),
        "settings": settings.to_json(),
        "model": config["actor_rollout_ref"]["model"]["path"],
        "train_files": config["data"]["train_files"],
    }
    return RolloutWriter(
        Path(settings.record),
        str(config["trainer"]["experiment_name"]),
        spec=spec,
        versions=package_versions(),
    )


def step_texts(
    responses: StepResponses, step: StepBatch, tokenizer: Any, *, with_tokens: bool = False
) -> "StepTexts":
    """Return what the record holds of a step in words, in the order of the batch."""
    from trainer_adapter.record.rollout import TokenLengths
    from trainer_adapter.record.step_batch import StepTexts

    ids = [
        row[:length]
        for row, length in zip(step.response_ids_BT.tolist(), step.tokens_B.tolist(), strict=True)
    ]
    asked: dict[tuple[int, int], str] = {}
    places = list(zip(step.question_B.tolist(), step.variant_B.tolist(), strict=True))
    for place, about in zip(places, responses.about, strict=True):
        if place not in asked:
            asked[place] = tokenizer.decode(about["prompt_ids"], skip_special_tokens=True)
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    lengths = None
    if with_tokens and step.sampling_log_probs_BT is not None:
        letter = tokenizer.encode("A", add_special_tokens=False)[-1]
        token_lengths = TokenLengths(partial(tokenizer.decode, skip_special_tokens=True), letter)
        lengths = [token_lengths.of(row, text) for row, text in zip(ids, texts, strict=True)]
        if left_out := lengths.count(None):
            _LOG.warning(
                "step %d: tokens of %d of %d responses are not recorded, since what they decode to together "
                "is another text than that of the response",
                *(step.step, left_out, len(lengths)),
            )
    elif with_tokens:
        _LOG.warning("step %d: no log-ratios of tokens, the rollout engine gave no log-probs", step.step)
    return StepTexts(
        responses=texts,
        reasons=[str(graded.get("reason", "")) for graded in responses.graded],
        extracted=[graded.get("extracted") or None for graded in responses.graded],
        prompts=[asked[place] for place in places],
        strategies=[about["strategy"] for about in responses.about],
        weights_versions=[about.get("weights_version") for about in responses.about],
        token_lengths=lengths,
    )


def record_step(
    writer: "RolloutWriter",
    responses: StepResponses,
    step: StepBatch,
    tokenizer: Any,
    *,
    with_tokens: bool = False,
) -> None:
    """Record the rollouts of a step; writing goes on beside training."""
    from trainer_adapter.record.step_batch import step_records

    texts = step_texts(responses, step, tokenizer, with_tokens=with_tokens)
    writer.write(step.step, step_records(step, texts))
