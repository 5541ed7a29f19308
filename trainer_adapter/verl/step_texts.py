"""Texts of a step's responses, and their rollout record."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.step_advantages import StepAdvantages
from trainer_adapter.record.metrics import StepBatch
from trainer_adapter.record.rollout import RolloutRecord, TokenLengths, is_recorded, token_ratios_text
from trainer_adapter.record.writing import RolloutWriter
from trainer_adapter.verl.plugin.images.placing import prompt_text
from trainer_adapter.verl.plugin.importance import Importance
from trainer_adapter.verl.plugin.responses import StepResponses

_LOG = logging.getLogger("tagrpo.rollouts")

_DECODED_TOGETHER = 256
"""Responses whose texts are held at a time."""


def step_batch(
    step: int,
    responses: StepResponses,
    groups_B: Tensor,
    made: StepAdvantages,
    weighed: Importance,
    *,
    first_stage: int | None = None,
) -> StepBatch:
    """Return what a step is measured and recorded by."""
    mask_BT = responses.mask_AT[responses.real_A]
    return StepBatch(
        step=step,
        question_B=responses.question_B,
        variant_B=responses.numbers("variant"),
        group_B=groups_B,
        rewards_B=made.rewards_B,
        correct_B=responses.correct_B,
        unknown_B=responses.unknown_B,
        truncated_B=responses.truncated_B,
        tokens_B=mask_BT.sum(-1),
        prompt_tokens_B=torch.tensor([len(each["prompt_ids"]) for each in responses.about]),
        mask_BT=mask_BT,
        old_log_probs_BT=responses.tensors_BT["old_log_probs"],
        sampling_log_probs_BT=responses.sampling_log_probs(),
        ref_log_probs_BT=responses.tensors_BT.get("ref_log_prob"),
        entropies_BT=responses.tensors_BT.get("entropy"),
        advantages_B=made.advantages_B,
        weights_BT=made.weights_BT,
        correction_BT=weighed.prompt_BT,
        engine_ratio_BT=weighed.engine_ratio_BT,
        engine_weights_BT=weighed.engine_BT,
        compared_B=weighed.compared_B,
        response_weights_B=made.response_weights_B,
        first_stage_B=None if first_stage is None else responses.numbers("session") < first_stage,
    )


def record_step(
    writer: RolloutWriter,
    responses: StepResponses,
    step: StepBatch,
    tokenizer: Any,
    *,
    with_tokens: bool = False,
    share: float = 1.0,
    image_ids: frozenset[int] = frozenset(),
) -> None:
    """Record the rollouts of a step. Numbers are taken now; texts are decoded and written beside training."""
    places = [
        (each["question_id"], each["session"], group)
        for each, group in zip(responses.about, step.group_B.tolist(), strict=True)
    ]
    kept = [row for row, (question_id, *_) in enumerate(places) if is_recorded(question_id, share)]
    rows = sorted(kept, key=places.__getitem__)
    old_BT, sampling_BT = step.old_log_probs_BT, step.sampling_log_probs_BT
    if with_tokens and sampling_BT is None:
        _LOG.warning(
            "step %d: no token log-ratios, because the rollout engine returned no log-probs", step.step
        )
    # Small enough to wait while training goes on.
    records = partial(
        _records,
        tokenizer,
        {"step": [step.step] * len(rows), **_columns(responses, step, rows)},
        responses.tensors_BT["responses"][rows].to(torch.int32),
        (old_BT - sampling_BT)[rows] if with_tokens and sampling_BT is not None else None,
        [responses.about[row]["prompt_ids"] for row in rows],
        step.question_B[rows].tolist(),
        image_ids,
    )
    writer.write(step.step, records)


def _columns(responses: StepResponses, step: StepBatch, rows: Sequence[int]) -> dict[str, Sequence[Any]]:
    """Return the numbers that are recorded of these responses, by the fields of `RolloutRecord`."""
    about, graded = ([each[row] for row in rows] for each in (responses.about, responses.graded))
    tokens = step.tokens_B[rows].tolist()
    is_right, is_unknown = step.correct_B[rows].tolist(), step.unknown_B[rows].tolist()
    entropies = _sums(step.entropies_BT, step.mask_BT, rows)
    return {
        **{
            name: [each[name] for each in about]
            for name in ("question_id", "neighbor_id", "strategy", "session")
        },
        "variant": step.variant_B[rows].tolist(),
        "group": step.group_B[rows].tolist(),
        "tokens": tokens,
        "truncated": step.truncated_B[rows].tolist(),
        "reward": step.rewards_B[rows].tolist(),
        "correct": [None if lost else right for right, lost in zip(is_right, is_unknown, strict=True)],
        "reason": [str(each.get("reason", "")) for each in graded],
        "extracted": [each.get("extracted") or None for each in graded],
        "advantage": step.advantages_B[rows].tolist(),
        "old_log_prob": _sums(step.old_log_probs_BT, step.mask_BT, rows),
        "sampling_log_prob": _sums(step.sampling_log_probs_BT, step.mask_BT, rows),
        "ref_log_prob": _sums(step.ref_log_probs_BT, step.mask_BT, rows),
        "entropy": [
            None if entropy is None else entropy / max(length, 1)
            for entropy, length in zip(entropies, tokens, strict=True)
        ],
        "weights_version": [each.get("weights_version") for each in about],
    }


def _sums(values_BT: Tensor | None, mask_BT: Tensor, rows: Sequence[int]) -> list[float | None]:
    """Return the sum over the tokens of these responses; None for all if there are no values."""
    if values_BT is None:
        return [None] * len(rows)
    real_BT = values_BT[rows].masked_fill(mask_BT[rows] <= 0, 0.0)
    return [*real_BT.sum(-1, dtype=torch.float64).tolist()]


def _records(
    tokenizer: Any,
    columns: Mapping[str, Sequence[Any]],
    response_ids_BT: Tensor,
    ratios_BT: Tensor | None,
    prompt_ids: Sequence[Any],
    questions: Sequence[int],
    image_ids: frozenset[int],
) -> Iterator[RolloutRecord]:
    """Decode the responses a part at a time."""
    tokens = columns["tokens"]
    if ratios_BT is not None:
        letter = tokenizer.encode("A", add_special_tokens=False)[-1]
        token_lengths = TokenLengths(partial(tokenizer.decode, skip_special_tokens=True), letter)
    asked: dict[tuple[int, int], str] = {}
    left_out = 0
    for first in range(0, len(tokens), _DECODED_TOGETHER):
        rows = range(first, min(first + _DECODED_TOGETHER, len(tokens)))
        ids = [response_ids_BT[row, : tokens[row]].tolist() for row in rows]
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        for row, of_row, text in zip(rows, ids, texts, strict=True):
            if (place := (questions[row], columns["variant"][row])) not in asked:
                asked[place] = prompt_text(tokenizer, prompt_ids[row], image_ids)
            ratios = None
            if ratios_BT is not None:
                lengths = token_lengths.of(of_row, text)
                left_out += lengths is None
                if lengths is not None:
                    ratios = token_ratios_text(lengths, ratios_BT[row, : len(lengths)].double().numpy())
            yield RolloutRecord(
                prompt=asked[place],
                response=text,
                token_ratios=ratios,
                **{name: column[row] for name, column in columns.items()},
            )
    if left_out:
        _LOG.warning(
            "step %d: the tokens of %d of %d responses are not recorded, because they decode to a different "
            "text",
            *(columns["step"][0], left_out, len(tokens)),
        )
