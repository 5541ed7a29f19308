"""The rollouts of a training step as records, from the tensors that the trainer holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.record.rollout import RolloutRecord
from trainer_adapter.record.step_batch import StepBatch
from trainer_adapter.record.token_ratios import token_ratios_text


@dataclass(frozen=True)
class StepTexts:
    """What is not in the tensors, for each response in the order of the batch.

    Prompts and strategies may be left out. With `token_lengths` (see `token_ratios.TokenRatios`) the
    log-ratios of single tokens are recorded too, where the rollout engine gave log-probs.
    """

    responses: Sequence[str]
    reasons: Sequence[str]
    extracted: Sequence[str | None]
    prompts: Sequence[str | None] | None = None
    strategies: Sequence[str | None] | None = None
    token_lengths: Sequence[Sequence[int] | None] | None = None


def step_records(
    batch: StepBatch, texts: StepTexts, *, weights_version: int | None = None
) -> Iterator[RolloutRecord]:
    """Yield a record for each response of a step.

    Args:
        batch: of B responses.
        texts: of the same responses.
        weights_version: the step whose weights drew them.

    Raises:
        ValueError: texts for another number of responses.
    """
    rows = len(batch)
    given = (texts.responses, texts.reasons, texts.extracted, texts.prompts, texts.strategies)
    for values in (*given, texts.token_lengths):
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
            weights_version=weights_version,
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
