"""A reward that ignores the answer: the recipe `grpo_random` shows what training does without a signal."""

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """Return 1 where the characters' code points have an odd sum."""
    right = float(sum(map(ord, solution_str)) % 2)
    return {"score": right, "acc": right}
