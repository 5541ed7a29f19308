"""The questions that a step skips, saved in verl's checkpoints."""

import json
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

from trainer_adapter.methods.skipping import DeadGroups

_DEAD_GROUPS = "tagrpo_dead_groups.json"


class SkipPolicy:
    """Decide which questions a step skips, and learn from its groups; saved in verl's checkpoints.

    `skipped` counts the questions that the current step has skipped.
    """

    def __init__(self, draw_again: float, seed: int) -> None:
        self._groups = DeadGroups(draw_again, seed)
        self._asked: dict[str, str] = {}  # questions by the names of their groups
        self._step = -1
        self.skipped = 0

    def skips(self, question_id: str, step: int) -> bool:
        """Say whether a step skips a question."""
        if step != self._step:
            self._step, self.skipped = step, 0
        left_out = self._groups.skips(question_id, step)
        self.skipped += left_out
        return left_out

    def draw(self, uid: str, question_id: str) -> None:
        """Record the question of a drawn group."""
        self._asked[uid] = question_id

    def count(self, dead: AbstractSet[str], taken: Iterable[str], step: int) -> None:
        """Count the groups of a step, by name: those without a gradient, and those that it trains on.

        A group that is never counted, since the step had no place for it, is dropped a step later.
        """
        named = [(uid in dead, self._asked.pop(uid)) for uid in {*dead, *taken} & self._asked.keys()]
        self._groups.count(
            [question for is_dead, question in named if is_dead],
            [question for is_dead, question in named if not is_dead],
        )
        self._asked = {
            uid: question for uid, question in self._asked.items() if int(uid.partition("-")[0]) >= step
        }

    def save(self, folder: Path) -> None:
        """Write the counts into the folder of a checkpoint."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _DEAD_GROUPS).write_text(
            json.dumps(self._groups.in_a_row, sort_keys=True), encoding="utf-8"
        )

    def load(self, folder: Path) -> None:
        """Restore the counts of a checkpoint; a checkpoint without counts skips no questions."""
        if (folder / _DEAD_GROUPS).is_file():
            self._groups.in_a_row.update(json.loads((folder / _DEAD_GROUPS).read_text(encoding="utf-8")))
