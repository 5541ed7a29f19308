"""All responses of one training step, before the policy is updated."""

from dataclasses import dataclass

import torch

from trainer_adapter.methods.groups import Tensor


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
