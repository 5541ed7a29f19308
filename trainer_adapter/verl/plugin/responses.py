"""Reads a step's responses from verl's queue into tensors."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.plugin import ABOUT_FIELD
from trainer_adapter.verl.plugin.overrides import CORRECTNESS
from trainer_adapter.verl.transfer import read_rows

UNKNOWN = "unknown"
_FIELDS = [
    "responses",
    "response_mask",
    "rm_scores",
    "old_log_probs",
    "entropy",
    "ref_log_prob",
    "extra_fields",
]


class StepResponses(NamedTuple):
    """The rows of verl's batch: tensors of all of them (A), and data of the real ones (B)."""

    real_A: Tensor
    mask_AT: Tensor
    about: tuple[Mapping[str, Any], ...]
    graded: tuple[Mapping[str, Any], ...]
    question_B: Tensor
    scores_B: Tensor
    correct_B: Tensor
    unknown_B: Tensor
    truncated_B: Tensor
    tensors_BT: Mapping[str, Tensor]

    def numbers(self, name: str) -> Tensor:
        """Return a whole number that the agent loop stored with each response, shape B."""
        return torch.tensor([int(each[name]) for each in self.about], dtype=torch.long)

    def groups(self, recipe: Recipe) -> Tensor:
        """Return the group of each response: its question's, or its prompt's."""
        if recipe.group == "joint":
            return self.question_B
        pairs = torch.stack([self.question_B, self.numbers("variant")], dim=-1)
        grouped: Tensor = torch.unique(pairs, dim=0, return_inverse=True)[1]
        return grouped

    def sampling_log_probs(self) -> Tensor | None:
        """Return the sampling log-probs of tokens, shape BT; None if the engine returned none."""
        by_response = [each["log_probs"] for each in self.about]
        if any(each is None for each in by_response):
            return None
        drawn_BT = torch.zeros(len(by_response), self.mask_AT.shape[-1])
        for row, log_probs in enumerate(by_response):
            drawn_BT[row, : len(log_probs)] = torch.from_numpy(log_probs)
        return drawn_BT


def read_responses(batch: Any, *, end_ids: frozenset[int], max_length: int) -> StepResponses:
    """Read the rows of `batch`, verl's handle on the step's responses."""
    data = read_rows(batch, _FIELDS)
    if "rm_scores" not in data:
        raise RuntimeError("the responses have no rewards. Set reward.custom_reward_function")
    extra = [getattr(each, "data", each) for each in data.pop("extra_fields")]
    real_A = torch.tensor([not tag.get("is_padding", False) for tag in batch.tags])
    if not real_A.any():
        raise RuntimeError("no responses arrived in this step. See the rollout log above")
    tensors = dict(data.to_padded_tensor(padding=0.0).items())
    mask_AT = tensors.pop("response_mask")
    mask_AT[~real_A] = 0
    extras = [each for each, real in zip(extra, real_A.tolist(), strict=True) if real]
    tensors_BT = {name: value[real_A] for name, value in tensors.items()}
    scores_B = tensors_BT.pop("rm_scores").sum(-1).double()  # one token of a response has its score
    graded = [each.get("reward_extra_info") or {} for each in extras]
    keys = [key for key, real in zip(batch.keys, real_A.tolist(), strict=True) if real]
    mask_BT, responses_BT = mask_AT[real_A], tensors_BT["responses"]
    lengths_B = mask_BT.sum(-1)
    last_B = responses_BT.gather(-1, (lengths_B - 1).clamp(min=0).unsqueeze(-1))[:, 0]
    ended_B = torch.isin(last_B, torch.tensor(sorted(end_ids)))
    return StepResponses(
        real_A=real_A,
        mask_AT=mask_AT,
        about=tuple(_about(each, key) for each, key in zip(extras, keys, strict=True)),
        graded=tuple(graded),
        question_B=torch.tensor(_numbered([key.rsplit("_", 2)[0] for key in keys])),
        scores_B=scores_B,
        correct_B=_flags(graded, CORRECTNESS, scores_B),
        unknown_B=_flags(graded, UNKNOWN, torch.zeros_like(scores_B)),
        truncated_B=(lengths_B >= max_length) & ~ended_B,
        tensors_BT=tensors_BT,
    )


def _about(extra: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    about = extra.get(ABOUT_FIELD)
    if not isinstance(about, Mapping):
        raise RuntimeError(
            f"response {key} did not come from tagrpo's agent loop. Remove the column agent_name from the "
            "data"
        )
    return about


def _numbered(names: Sequence[str]) -> list[int]:
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return [numbers[name] for name in names]


def _flags(graded: Sequence[Mapping[str, Any]], name: str, default_B: Tensor) -> Tensor:
    """Return the reward function's values for each response, or whether the default is above 0."""
    marks = [graded[row].get(name, default) for row, default in enumerate(default_B.tolist())]
    return torch.tensor([float(each) > 0 for each in marks])
