"""Skipping: leave out questions whose last groups had no gradient, with some probability.

As in GRESO (arXiv 2506.02177): a question whose last z groups in a row were all-right or all-wrong is drawn
with probability p^z, so that none is lost for good. Here p is one number; GRESO has one each for right and
wrong.
"""

from collections import Counter
from collections.abc import Iterable

from service.hashing import content_hash


class DeadGroups:
    """Counts, for each question, the groups without a gradient since its last group with one."""

    def __init__(self, draw_again: float, seed: int) -> None:
        self._draw_again, self._seed = draw_again, seed
        self.in_a_row: Counter[str] = Counter()

    def chance(self, question_id: str) -> float:
        """Return the probability with which a question is drawn."""
        return float(self._draw_again ** self.in_a_row[question_id])

    def skips(self, question_id: str, step: int) -> bool:
        """Say whether to leave a question out of this step."""
        drawn = int(content_hash("skip", [self._seed, step, question_id])[:12], 16) / 16**12
        return drawn >= self.chance(question_id)

    def count(self, dead: Iterable[str], alive: Iterable[str]) -> None:
        """Count the groups of a step, by their questions."""
        self.in_a_row.update(dead)
        for question_id in alive:
            self.in_a_row.pop(question_id, None)
