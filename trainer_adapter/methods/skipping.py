"""Skipping: leave out questions whose last groups had no gradient, with some probability.

As in GRESO (arXiv 2506.02177): a question whose last z groups in a row were all-right or all-wrong is drawn
with probability p^z, so that none is lost for good. Here p is one number; GRESO has one each for right and
wrong.
"""

import json
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

from service.hashing import content_hash

_FILE = "tagrpo_dead_groups.json"


class SkipPolicy:
    """Decide which questions a step skips, and learn from its groups; saved in verl's checkpoints.

    `in_a_row` counts, for each question, the groups without a gradient since its last group with one.
    `skipped` counts the questions that the current step has skipped.
    """

    def __init__(self, draw_again: float, seed: int) -> None:
        self._draw_again, self._seed = draw_again, seed
        self.in_a_row: Counter[str] = Counter()
        self._asked: dict[str, str] = {}  # questions by the names of their groups
        self._step, self.skipped = -1, 0

    def skips(self, question_id: str, step: int) -> bool:
        """Say whether to leave a question out of this step."""
        if step != self._step:
            self._step, self.skipped = step, 0
        drawn = int(content_hash("skip", [self._seed, step, question_id])[:12], 16) / 16**12
        left_out = bool(drawn >= self._draw_again ** self.in_a_row[question_id])
        self.skipped += left_out
        return left_out

    def count(self, dead: Iterable[str], alive: Iterable[str]) -> None:
        """Count the groups of a step, by their questions."""
        self.in_a_row.update(dead)
        for question_id in alive:
            self.in_a_row.pop(question_id, None)

    def draw(self, uid: str, question_id: str) -> None:
        """Record the question of a drawn group."""
        self._asked[uid] = question_id

    def count_step(self, dead: AbstractSet[str], taken: Iterable[str], step: int) -> None:
        """Count the groups of a step, by name: those without a gradient, and those that it trains on.

        A group that is never counted, since the step had no place for it, is dropped a step later.
        """
        named = [(uid in dead, self._asked.pop(uid)) for uid in {*dead, *taken} & self._asked.keys()]
        self.count(
            [question for is_dead, question in named if is_dead],
            [question for is_dead, question in named if not is_dead],
        )
        self._asked = {
            uid: question for uid, question in self._asked.items() if int(uid.partition("-")[0]) >= step
        }

    def save(self, folder: Path) -> None:
        """Write the counts into the folder of a checkpoint."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(json.dumps(self.in_a_row, sort_keys=True), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Restore the counts of a checkpoint; a checkpoint without counts skips no questions."""
        if (folder / _FILE).is_file():
            self.in_a_row.update(json.loads((folder / _FILE).read_text(encoding="utf-8")))
