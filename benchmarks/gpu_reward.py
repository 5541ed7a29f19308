"""The reward of `gpu_check`: half of all texts are right, so that any policy has a gradient."""

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """Return 1 where the characters' code points have an odd sum."""
    right = float(sum(map(ord, solution_str)) % 2)
    return {"score": right, "acc": right}
