"""Groups of responses: explicit ids, and vectorised statistics over each group.

Suffixes of names: B responses in batch order, G groups, T tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Formula: TypeAlias = Literal["paper", "repo"]
"""`paper` is a formula as printed, and the one that recipes train. `repo` is the output of its public code,
compared with its numbers in the tests. No recipe trains it: one function is not the whole code.
"""
Ids: TypeAlias = Sequence[Any] | torch.Tensor
"""The group of each response: any hashable values, or a tensor of integers, in batch order."""


@dataclass(frozen=True)
class Groups:
    """The grouping of responses. Groups may interleave and differ in size.

    `index_B` numbers the group of each response from 0; `size_G` counts the responses of each group.
    """

    index_B: Tensor
    size_G: Tensor

    @classmethod
    def of(cls, group_ids: "Ids | Groups", *, device: Any = None) -> "Groups":
        """Number the groups of a batch."""
        if isinstance(group_ids, Groups):
            return group_ids
        if isinstance(group_ids, torch.Tensor):
            ids = group_ids.to(device) if device is not None else group_ids
            if ids.dim() != 1:
                raise ValueError(f"group ids have shape {tuple(ids.shape)}. Give one id per response")
        else:
            listed = group_ids.tolist() if hasattr(group_ids, "tolist") else group_ids
            numbers: dict[Any, int] = {}
            numbered = [numbers.setdefault(id, len(numbers)) for id in listed]
            ids = torch.tensor(numbered, dtype=torch.long, device=device)
        if not len(ids):
            raise ValueError("a batch without responses has no groups")
        if not isinstance(group_ids, torch.Tensor):
            return cls(ids, torch.bincount(ids))
        _, index_B, size_G = torch.unique(ids, return_inverse=True, return_counts=True)
        return cls(index_B, size_G)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.size_G)

    def sum(self, values_B: Tensor) -> Tensor:
        """Return the sum of each group, shape G."""
        zeros = torch.zeros(self.count, dtype=values_B.dtype, device=values_B.device)
        return zeros.index_add_(0, self.index_B, values_B)

    def mean(self, values_B: Tensor) -> Tensor:
        """Return the mean of each group, shape G."""
        return self.sum(values_B) / self.size_G

    def std(self, values_B: Tensor, *, ddof: int) -> Tensor:
        """Return the standard deviation of each group, shape G; 0 if all values are equal.

        Two passes, so that equal values give exactly 0 at any magnitude. A group of at most `ddof` values has
        no deviation; it is 0 here, and callers treat it as a singleton.
        """
        return self.std_of_centred(self.centred(values_B), ddof=ddof)

    def std_of_centred(self, centred_B: Tensor, *, ddof: int) -> Tensor:
        """Return the standard deviation of each group, given the result of `centred`."""
        degrees_G = (self.size_G - ddof).clamp(min=1)
        return (self.sum(centred_B * centred_B) / degrees_G).sqrt()

    def centred(self, values_B: Tensor) -> Tensor:
        """Return each value minus the mean of its group, shape B; exactly 0 if all are equal."""
        # Distances from a value of the group: equal values are 0 apart, even if their mean is rounded.
        of_each_G = torch.empty(self.count, dtype=values_B.dtype, device=values_B.device).scatter_(
            0, self.index_B, values_B
        )
        apart_B = values_B - of_each_G[self.index_B]
        return apart_B - self.mean(apart_B)[self.index_B]

    def spread(self, values_G: Tensor) -> Tensor:
        """Return for each response the value of its group, shape B."""
        return values_G[self.index_B]


def rewards_tensor(rewards: Any, groups: "Ids | Groups") -> tuple[Tensor, Groups]:
    """Return rewards as float64, shape B, and the groups on their device."""
    rewards_B = torch.as_tensor(rewards).to(torch.float64)
    numbered = Groups.of(groups, device=rewards_B.device)
    if rewards_B.dim() != 1 or len(rewards_B) != len(numbered.index_B):
        raise ValueError(
            f"rewards have shape {tuple(rewards_B.shape)} for {len(numbered.index_B)} group ids. Give one "
            "reward per id"
        )
    if not torch.isfinite(rewards_B).all():
        raise ValueError("a reward is not finite. Give unknown grades a reward first")
    return rewards_B, numbered
