"""How far two reviewers agree."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Two reviewers on the candidates both have decided.

    Attributes:
        shared: candidates both have decided, at least 1.
        agreed: those with the same decision.
        kappa: Cohen's; None where it is not defined.
    """

    first: str
    second: str
    shared: int
    agreed: int
    kappa: float | None


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two raters (Cohen, Educational and Psychological Measurement 1960).

    kappa = (p_o - p_e) / (1 - p_e), with p_o the share of equal ratings and p_e the share expected by chance
    from each rater's own shares: 1 is agreement throughout, 0 what chance gives, below 0 worse than chance.

    Args:
        pairs: the two ratings of each item.

    Returns:
        None where p_e is 1: both gave one and the same rating to everything, and nothing can be said.

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("kappa of no ratings is not defined")
    items = len(pairs)
    ratings = {rating for pair in pairs for rating in pair}
    equal = sum(first == second for first, second in pairs)
    by_chance = sum(
        sum(first == rating for first, _ in pairs) * sum(second == rating for _, second in pairs)
        for rating in ratings
    )
    if by_chance == items * items:
        return None
    return (equal * items - by_chance) / (items * items - by_chance)
