"""Where in the responses of eval runs the answers were found, by counts: shares that stand beside a score."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from evaluator.evals.tables import GradeSourcesRow, RunProblemRow
from evaluator.grading import SOURCES

NONE_FOUND = "none found"
PLACES: tuple[str, ...] = (*SOURCES, NONE_FOUND)
"""Where an answer was found, the surest place first."""

BOX, LAST_SENTENCE = SOURCES[0], SOURCES[-1]


@dataclass(frozen=True)
class Sources:
    """Graded samples, and those of them that are correct, by where the answer was found, as in `PLACES`."""

    grades: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Sources") -> "Sources":
        return Sources(self.grades + other.grades, self.correct + other.correct)

    @property
    def shares(self) -> dict[str, float] | None:
        """The share of graded samples by place; None without any."""
        return _shares(self.grades)

    @property
    def correct_shares(self) -> dict[str, float] | None:
        """The share of correct samples by place; None without any."""
        return _shares(self.correct)


def read_sources(
    session: Session, graders: Mapping[str, int | None], *, originals: bool = False
) -> dict[str, Sources]:
    """Return where the answers of runs were found.

    Args:
        graders: the version of the grader whose grades count, by the run's id; None for no grades at all.
        originals: leave the neighbors of a run out.
    """
    counted = GradeSourcesRow
    query = (
        select(RunProblemRow.run_id, counted.source, func.sum(counted.grades), func.sum(counted.correct))
        .join(RunProblemRow, RunProblemRow.id == counted.run_problem_id)
        .where(tuple_(RunProblemRow.run_id, counted.grader_id).in_(list(graders.items())))
        .group_by(RunProblemRow.run_id, counted.source)
    )
    if originals:
        query = query.where(RunProblemRow.variant == 0)
    by_run = {run: Sources() for run in graders}
    for run, source, grades, correct in session.execute(query):
        place = source or NONE_FOUND
        if place in PLACES:  # else of a program
            by_run[run].grades[place] += grades
            by_run[run].correct[place] += correct
    return by_run


def _shares(counts: Counter[str]) -> dict[str, float] | None:
    total = counts.total()
    return {place: counts[place] / total for place in PLACES} if total else None
