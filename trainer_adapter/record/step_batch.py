"""All responses of one training step, before the policy is updated, and the records they become."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.record.rollout import RolloutRecord, token_ratios_text


@dataclass(frozen=True)
class StepBatch:
    """The real responses of a step, padding rows left out, in a fixed order (question, then session).

    Suffixes: B responses, T tokens of the longest response; what is beyond the end of a response is 0.
    All tensors are on the CPU. Responses to one question stand together only by `question_B`.

    Attributes:
        step: the global step, from 1.
        question_ids: of each response, as exported; B.
        neighbor_ids: of the neighbor whose prompt a response was drawn for; None for the question itself; B.
        question_B: numbers the drawings of questions in the step from 0: the (N+1)G responses of one share
            it. A question that is drawn twice has two numbers.
        variant_B: 0 for the question's own prompt, k for its k-th neighbor's.
        session_B: the response's number among those of its question, from 0.
        group_B: the group whose rewards the advantage is measured against; `question_B` for joint groups.
        rewards_B: what the advantage was computed from, float64; shaped where the recipe shapes it.
        correct_B: whether the answer is right, bool; the filter looks at this.
        unknown_B: whether the grader could not tell (a time-out), bool; such a response counts as wrong.
        truncated_B: whether the response was cut at the longest length, bool.
        tokens_B: tokens of each response.
        prompt_tokens_B: tokens of the prompt the response was drawn for.
        response_ids_BT: token ids.
        mask_BT: 1 at the tokens of a response.
        old_log_probs_BT: log-probs before the update, on the prompt the recipe anchors on.
        sampling_log_probs_BT: log-probs the tokens were drawn with, on the prompt they were drawn for; None
            where the rollout engine gave none.
        ref_log_probs_BT: log-probs of the reference policy, on the anchor; None without a KL penalty.
        entropies_BT: entropy of the policy at each token, on the anchor; None where it was not computed.
        advantages_BT: advantages of tokens, weights included, as the loss gets them.
        advantages_B: advantages of responses before token weights, float64.
        weights_BT: token weights (CW-GRPO, Clip-Cov); None for recipes without.
        response_weights_B: weights of anchors tapered and dropped; None for the other anchors.
        first_stage_B: whether a response was drawn in the first of two stages; None where there is one.
        correction_BT: importance weights of anchor corrected, truncated; None for the other anchors.
        engine_ratio_BT: log-probs of the trainer minus those of the engine, on the prompt that was asked;
            None where the engine gave none.
        engine_weights_BT: importance weights between the two, truncated; None where there are none.
        compared_B: whether the two were compared on the prompt that was asked, bool; None for none.
    """

    step: int
    question_ids: tuple[str, ...]
    neighbor_ids: tuple[str | None, ...]
    question_B: Tensor
    variant_B: Tensor
    session_B: Tensor
    group_B: Tensor
    rewards_B: Tensor
    correct_B: Tensor
    unknown_B: Tensor
    truncated_B: Tensor
    tokens_B: Tensor
    prompt_tokens_B: Tensor
    response_ids_BT: Tensor
    mask_BT: Tensor
    old_log_probs_BT: Tensor
    sampling_log_probs_BT: Tensor | None
    ref_log_probs_BT: Tensor | None
    entropies_BT: Tensor | None
    advantages_BT: Tensor
    advantages_B: Tensor
    weights_BT: Tensor | None = None
    correction_BT: Tensor | None = None
    engine_ratio_BT: Tensor | None = None
    engine_weights_BT: Tensor | None = None
    compared_B: Tensor | None = None
    response_weights_B: Tensor | None = None
    first_stage_B: Tensor | None = None

    def __post_init__(self) -> None:
        rows, tokens = len(self.question_ids), self.mask_BT.shape[-1]
        for name, value in vars(self).items():
            if not isinstance(value, torch.Tensor | tuple):
                continue
            wanted = (rows, tokens) if name.endswith("_BT") else (rows,)
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else (len(value),)
            if shape != wanted:
                raise ValueError(f"{name} has shape {shape} in a batch of {wanted}")

    def __len__(self) -> int:
        return len(self.question_ids)


@dataclass(frozen=True)
class StepNumbers:
    """What is recorded of a step's responses beside their texts; small enough to wait while training goes on.

    Attributes:
        step: the global step.
        values: fields of `RolloutRecord` by name, each with a value for every response.
        log_ratios_BT: of tokens, anchor minus sampling; None where they are not recorded.
    """

    step: int
    values: Mapping[str, Sequence[Any]]
    log_ratios_BT: Tensor | None = None


@dataclass(frozen=True)
class StepTexts:
    """The texts of some responses that follow one another.

    With `token_lengths` (see `TokenRatios`) the log-ratios of single tokens are recorded too, where the
    rollout engine gave log-probs.
    """

    responses: Sequence[str]
    prompts: Sequence[str | None]
    token_lengths: Sequence[Sequence[int] | None] | None = None


def step_numbers(
    batch: StepBatch, rows: Sequence[int] | None = None, *, with_tokens: bool = False, **others: Sequence[Any]
) -> StepNumbers:
    """Return the numbers that are recorded of a step.

    Args:
        batch: of B responses.
        rows: of the responses that are recorded; None for all.
        with_tokens: keep log-ratios of tokens too, where the rollout engine gave log-probs.
        others: further fields of the record, for all B responses.
    """
    chosen = torch.arange(len(batch)) if rows is None else torch.tensor(rows, dtype=torch.long)
    kept = chosen.tolist()
    old, sampling, ref, entropies = (
        _sums(values_BT, batch.mask_BT, chosen)
        for values_BT in (
            *(batch.old_log_probs_BT, batch.sampling_log_probs_BT, batch.ref_log_probs_BT),
            batch.entropies_BT,
        )
    )
    tokens = batch.tokens_B[chosen].tolist()
    right, unknown = batch.correct_B[chosen].tolist(), batch.unknown_B[chosen].tolist()
    ratios_BT = None
    if with_tokens and batch.sampling_log_probs_BT is not None:
        ratios_BT = (batch.old_log_probs_BT - batch.sampling_log_probs_BT)[chosen]
    values: dict[str, Sequence[Any]] = {
        "question_id": [batch.question_ids[row] for row in kept],
        "neighbor_id": [batch.neighbor_ids[row] for row in kept],
        "variant": batch.variant_B[chosen].tolist(),
        "group": batch.group_B[chosen].tolist(),
        "session": batch.session_B[chosen].tolist(),
        "tokens": tokens,
        "truncated": batch.truncated_B[chosen].tolist(),
        "reward": batch.rewards_B[chosen].tolist(),
        "correct": [None if lost else value for value, lost in zip(right, unknown, strict=True)],
        "advantage": batch.advantages_B[chosen].tolist(),
        "old_log_prob": old,
        "sampling_log_prob": sampling,
        "ref_log_prob": ref,
        "entropy": [
            None if entropy is None else entropy / max(length, 1)
            for entropy, length in zip(entropies, tokens, strict=True)
        ],
        **{name: [column[row] for row in kept] for name, column in others.items()},
    }
    return StepNumbers(batch.step, values, ratios_BT)


def step_records(numbers: StepNumbers, texts: StepTexts, first: int = 0) -> Iterator[RolloutRecord]:
    """Yield the records of the responses from `first` on that `texts` has the texts of."""
    lengths = None if numbers.log_ratios_BT is None else texts.token_lengths
    for place, (response, prompt) in enumerate(zip(texts.responses, texts.prompts, strict=True)):
        row = first + place
        of_tokens = None if lengths is None else lengths[place]
        yield RolloutRecord(
            step=numbers.step,
            response=response,
            prompt=prompt,
            token_ratios=None if of_tokens is None else _token_ratios(numbers, row, of_tokens),
            **{name: column[row] for name, column in numbers.values.items()},
        )


def _token_ratios(numbers: StepNumbers, row: int, lengths: Sequence[int]) -> str:
    """Return the log-ratio of each token of a response as it is recorded."""
    assert numbers.log_ratios_BT is not None
    return token_ratios_text(lengths, numbers.log_ratios_BT[row, : len(lengths)].double().numpy())


def _sums(values_BT: Tensor | None, mask_BT: Tensor, rows: Tensor) -> list[float | None]:
    """Return the sum over the tokens of these responses; None for all where there are no values."""
    if values_BT is None:
        return [None] * len(rows)
    sums: list[float | None] = (
        values_BT[rows].masked_fill(mask_BT[rows] <= 0, 0.0).sum(-1, dtype=torch.float64).tolist()
    )
    return sums
