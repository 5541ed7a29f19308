"""A reward that a random model earns now and then: the share of digits, and 1 for the answer itself."""

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> float:
    digits = sum(character.isdigit() for character in solution_str) / max(1, len(solution_str))
    return digits + (1.0 if solution_str.strip() == ground_truth else 0.0)
