"""All responses of one training step, before the policy is updated."""

from dataclasses import dataclass

from trainer_adapter.methods.groups import Tensor


@dataclass(frozen=True)
class StepBatch:
    """The real responses of a step, padding rows left out, in a fixed order (question, then session).

    Suffixes: B responses, T tokens of the longest response; what is beyond the end of a response is 0.
    All tensors are on the CPU. Responses to one question stand together only by `question_B`.
    """

    step: int  # the global step, from 1
    # numbers the drawings of questions in the step from 0: the (N+1)G responses of one share it. A question
    # that is drawn twice has two numbers
    question_B: Tensor
    variant_B: Tensor  # 0 for the question's own prompt, k for its k-th neighbor's
    # the group whose rewards the advantage is measured against; `question_B` for joint groups
    group_B: Tensor
    rewards_B: Tensor  # what the advantage was computed from, float64; shaped where the recipe shapes it
    correct_B: Tensor  # whether the answer is right, bool; the filter looks at this
    unknown_B: Tensor  # whether the grader could not tell (a time-out), bool; such a response counts as wrong
    truncated_B: Tensor  # whether the response was cut at the longest length, bool
    tokens_B: Tensor  # tokens of each response
    prompt_tokens_B: Tensor  # tokens of the prompt the response was drawn for
    mask_BT: Tensor  # 1 at the tokens of a response
    old_log_probs_BT: Tensor  # log-probs before the update, on the prompt the recipe anchors on
    # log-probs the tokens were drawn with, on the prompt they were drawn for; None where the rollout engine
    # gave none
    sampling_log_probs_BT: Tensor | None
    # log-probs of the reference policy, on the anchor; None without a KL penalty
    ref_log_probs_BT: Tensor | None
    # entropy of the policy at each token, on the anchor; None where it was not computed
    entropies_BT: Tensor | None
    advantages_B: Tensor  # advantages of responses before token weights, float64
    weights_BT: Tensor | None = None  # token weights (CW-GRPO, Clip-Cov); None for recipes without
    # importance weights of anchor corrected, truncated; None for the other anchors
    correction_BT: Tensor | None = None
    # log-probs of the trainer minus those of the engine, on the prompt that was asked; None where the engine
    # gave none
    engine_ratio_BT: Tensor | None = None
    # importance weights between the two, truncated; None where there are none
    engine_weights_BT: Tensor | None = None
    # whether the two were compared on the prompt that was asked, bool; None for none
    compared_B: Tensor | None = None
    # weights of anchors tapered and dropped; None for the other anchors
    response_weights_B: Tensor | None = None
    # whether a response was drawn in the first of two stages; None where there is one
    first_stage_B: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mask_BT)
