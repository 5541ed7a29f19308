"""Find problems that one run solves and another does not, at a point k of their curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sqlalchemy.orm import Session

from evaluator.evals.counts import ProblemCounts, count_samples
from evaluator.evals.overview import shown_grader
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.tables import RunProblemRow
from evaluator.passk.estimators import pass_at_k
from service.errors import InputError

Which = Literal["first only", "second only", "both", "neither", "all"]
SOLVED = 0.5


@dataclass(frozen=True)
class Contrast:
    """A problem in two runs."""

    problem_id: str
    group_id: str
    variant: int
    first: float  # pass@k of the problem, unknown grades counted wrong
    second: float
    counts: tuple[ProblemCounts, ProblemCounts]  # in the two runs

    @property
    def difference(self) -> float:
        return self.second - self.first

    def which(self) -> Which:
        """Say which run solves it: with k samples in at least half of the draws."""
        first, second = self.first >= SOLVED, self.second >= SOLVED
        if first and second:
            return "both"
        return "first only" if first else "second only" if second else "neither"


@dataclass(frozen=True)
class Contrasts:
    """Problems that two runs share, those with the largest difference first."""

    k: int
    problems: tuple[Contrast, ...]
    only_first: int  # problems that one run holds and the other does not
    only_second: int
    too_few: int  # problems for which a run has fewer than k graded samples

    def numbers(self) -> dict[Which, int]:
        """Return how many problems are solved by which run."""
        counts: dict[Which, int] = {"first only": 0, "second only": 0, "both": 0, "neither": 0}
        for contrast in self.problems:
            counts[contrast.which()] += 1
        return counts

    def page(
        self,
        which: Which = "all",
        *,
        after: str | None = None,
        limit: int = 25,
    ) -> list[Contrast]:
        """Return up to `limit` problems of a kind behind the problem with the id `after`."""
        chosen = [contrast for contrast in self.problems if which == "all" or contrast.which() == which]
        if after is None:
            return chosen[:limit]
        place = next((place for place, contrast in enumerate(chosen) if contrast.problem_id == after), None)
        if place is None:
            raise InputError(f"problem {after} is not in this list. Start again from the first page.")
        return chosen[place + 1 : place + 1 + limit]


def contrast_runs(
    session: Session, first_id: str, second_id: str, k: int, *, originals: bool = False
) -> Contrasts:
    """Compare two eval runs problem by problem at k, with the grades that each of them shows.

    A problem that stands several times in a run is matched copy by copy, in order. The largest differences
    come first; equal ones by the difference of the shares of right samples, then in the order of the first
    run. `originals` leaves neighbors out, of the numbers as well.
    """
    if k < 1:
        raise InputError(f"k is {k}, but must be at least 1.")
    first, second = (_counts(session, run_id, originals=originals) for run_id in (first_id, second_id))
    shared = [key for key in first if key in second]
    enough = [key for key in shared if min(first[key].asked, second[key].asked) >= k]
    values = [
        np.atleast_1d(pass_at_k([c.asked for c in of], [c.correct for c in of], k)).tolist()
        for of in ([first[key] for key in enough], [second[key] for key in enough])
    ]
    problems = [
        Contrast(
            first[key].problem_id,
            first[key].group_id,
            first[key].variant,
            first_value,
            second_value,
            (first[key], second[key]),
        )
        for key, first_value, second_value in zip(enough, *values, strict=True)
    ]
    problems.sort(key=lambda contrast: (-abs(contrast.difference), -abs(_shares_apart(contrast))))
    return Contrasts(
        k=k,
        problems=tuple(problems),
        only_first=len(first) - len(shared),
        only_second=len(second) - len(shared),
        too_few=len(shared) - len(enough),
    )


def _shares_apart(contrast: Contrast) -> float:
    first, second = contrast.counts
    return first.correct / first.asked - second.correct / second.asked


def contrast_texts(session: Session, contrasts: Sequence[Contrast]) -> dict[int, RunProblem]:
    """Return the problems of contrasts with their texts and places in both runs, by `run_problem_id`."""
    ids = {counts.run_problem_id for contrast in contrasts for counts in contrast.counts}
    problems = read_problems(session, RunProblemRow.id.in_(ids))
    return {problem.id: problem for problem in problems}


def _counts(session: Session, run_id: str, *, originals: bool) -> dict[tuple[str, int], ProblemCounts]:
    grader = shown_grader(session, run_id)
    seen: dict[str, int] = {}
    counted = {}
    for problem in count_samples(session, run_id, None if grader is None else grader.id):
        if originals and problem.variant != 0:
            continue
        copy = seen[problem.problem_id] = seen.get(problem.problem_id, -1) + 1
        counted[problem.problem_id, copy] = problem
    return counted
