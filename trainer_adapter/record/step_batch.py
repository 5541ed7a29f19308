"""All responses of one training step, before the policy is updated, and the records they become."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
class StepTexts:
    """What is not in the tensors, for each response in the order of the batch.

    Prompts, strategies, and the steps whose weights drew the responses, may be left out. With `token_lengths`
    (see `TokenRatios`) the log-ratios of single tokens are recorded too, where the rollout engine gave
    log-probs.
    """

    responses: Sequence[str]
    reasons: Sequence[str]
    extracted: Sequence[str | None]
    prompts: Sequence[str | None] | None = None
    strategies: Sequence[str | None] | None = None
    weights_versions: Sequence[int | None] | None = None
    token_lengths: Sequence[Sequence[int] | None] | None = None


def step_records(batch: StepBatch, texts: StepTexts) -> Iterator[RolloutRecord]:
    """Yield a record for each response of a step.

    Args:
        batch: of B responses.
        texts: of the same responses.

    Raises:
        ValueError: texts for another number of responses.
    """
    rows = len(batch)
    for values in vars(texts).values():
        if values is not None and len(values) != rows:
            raise ValueError(f"{len(values)} texts for {rows} responses")
    mask_BT = batch.mask_BT > 0
    old, sampling, ref = (
        _sums(values, mask_BT)
        for values in (batch.old_log_probs_BT, batch.sampling_log_probs_BT, batch.ref_log_probs_BT)
    )
    entropies = _sums(batch.entropies_BT, mask_BT)
    columns = [
        values.tolist()
        for values in (
            *(batch.variant_B, batch.group_B, batch.session_B, batch.tokens_B, batch.truncated_B),
            *(batch.rewards_B, batch.correct_B, batch.unknown_B, batch.advantages_B),
        )
    ]
    lengths = texts.token_lengths if batch.sampling_log_probs_BT is not None else None
    for row, values in enumerate(zip(*columns, strict=True)):
        variant, group, session, tokens, truncated, reward, correct, unknown, advantage = values
        entropy = entropies[row]
        of_tokens = None if lengths is None else lengths[row]
        yield RolloutRecord(
            step=batch.step,
            question_id=batch.question_ids[row],
            neighbor_id=batch.neighbor_ids[row],
            strategy=None if texts.strategies is None else texts.strategies[row],
            variant=variant,
            group=group,
            session=session,
            prompt=None if texts.prompts is None else texts.prompts[row],
            response=texts.responses[row],
            tokens=tokens,
            truncated=truncated,
            reward=reward,
            correct=None if unknown else correct,
            reason=texts.reasons[row],
            extracted=texts.extracted[row] or None,
            advantage=advantage,
            old_log_prob=old[row],
            sampling_log_prob=sampling[row],
            ref_log_prob=ref[row],
            entropy=None if entropy is None else entropy / max(tokens, 1),
            weights_version=None if texts.weights_versions is None else texts.weights_versions[row],
            token_ratios=None if of_tokens is None else _token_ratios(batch, row, of_tokens),
        )


def _token_ratios(batch: StepBatch, row: int, lengths: Sequence[int]) -> str:
    """Return the log-ratio of each token of a response, anchor minus sampling, as it is recorded."""
    assert batch.sampling_log_probs_BT is not None
    tokens = len(lengths)
    ratios_T = batch.old_log_probs_BT[row, :tokens] - batch.sampling_log_probs_BT[row, :tokens]
    return token_ratios_text(lengths, ratios_T.double().numpy())


def _sums(values_BT: Tensor | None, mask_BT: Tensor) -> list[float | None]:
    """Return the sum over the tokens of each response; None for all where there are no values."""
    if values_BT is None:
        return [None] * len(mask_BT)
    sums: list[float | None] = values_BT.double().where(mask_BT, 0.0).sum(-1).tolist()
    return sums
