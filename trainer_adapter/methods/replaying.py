"""Replay: mixed groups of earlier steps replace groups without a gradient, latest first (arXiv 2606.01281).

A replayed response o was drawn by an older policy, pi_drawn. Its loss is that of decoupled PPO (arXiv
2110.00641): ratios are clipped against pi_old, the policy at the start of the step, and a constant weight
changes the expectation from pi_drawn to pi_old:

    w_t min(r_t A, clip(r_t) A),  r_t = pi(o_t) / pi_old(o_t),  w_t = min(pi_old(o_t) / pi_drawn(o_t), most)
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from trainer_adapter.methods.groups import Tensor


@dataclass(frozen=True)
class MixedGroup:
    """A group with correct and wrong answers: its question, the step that drew it, and its responses."""

    question_id: str
    step: int
    rows: Any


class MixedGroups:
    """The latest mixed groups, one per question; `most` equal to the groups of one step loses none."""

    def __init__(self, steps: int, most: int) -> None:
        self._steps, self._most = steps, most
        self._groups: dict[str, MixedGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def keep(self, groups: Iterable[MixedGroup]) -> None:
        """Store groups, in the order of drawing, replacing older ones of their questions."""
        for group in groups:
            self._groups.pop(group.question_id, None)
            self._groups[group.question_id] = group
        self._groups = dict(list(self._groups.items())[-self._most :])

    def choose(self, wanted: int, step: int, without: AbstractSet[str] = frozenset()) -> list[MixedGroup]:
        """Return up to `wanted` groups for a step, latest first, and drop those that are too old for it."""
        self._groups = {
            question: group for question, group in self._groups.items() if step - group.step <= self._steps
        }
        latest = [group for group in reversed(self._groups.values()) if group.question_id not in without]
        return latest[:wanted]

    def all(self) -> list[MixedGroup]:
        """Return the stored groups, oldest first, for a checkpoint."""
        return list(self._groups.values())


def replay_weights(old_log_probs: Tensor, drawn_log_probs: Tensor, most: float) -> Tensor:
    """Return w_t of tokens, of any shape: 1 if the policy is the one that drew them."""
    return (old_log_probs - drawn_log_probs).exp().clamp(max=most)
