"""Counts of an eval run's samples by problem, with people's grades in place of the grader's.

See `evaluator.evals.human` for people's grades.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from evaluator.evals.human import Grades, human_moves
from evaluator.evals.missing import asked_in_vain
from evaluator.evals.tables import GradeCountsRow, RunProblemRow, SampleCountsRow, SampleRow
from service.asks.tables import AskRow


@dataclass(frozen=True)
class ProblemCounts:
    """The counts of one problem of a run."""

    run_problem_id: int
    position: int
    problem_id: str
    group_id: str
    variant: int
    strategy: str | None
    samples: int
    truncated: int  # cut at the maximum tokens
    refused: int  # cut or kept back by a provider's filter, or refused by the model
    with_tokens: int  # samples whose number of completion tokens is known
    tokens: int  # of these together
    correct: int  # by one version of the grader, as wrong and unknown
    wrong: int
    unknown: int
    missing: int = 0  # requested samples without an answer
    human: int = 0  # graded samples that a person graded too
    overruled: int = 0  # of these, samples that the grader graded differently

    @property
    def graded(self) -> int:
        return self.correct + self.wrong + self.unknown

    @property
    def asked(self) -> int:
        """The samples that pass@k stands on."""
        return self.graded + self.missing


def count_samples(
    session: Session, run_id: str, grader_id: int | None, grades: Grades = "human"
) -> list[ProblemCounts]:
    """Return the counts of every problem of a run in order, with the grades of one version of the grader.

    Args:
        grader_id: None counts no grades, people's neither.
        grades: whether people's grades override the grader's.
    """
    missing = asked_in_vain(session, [run_id]).get(run_id, {})
    graded = and_(GradeCountsRow.run_problem_id == RunProblemRow.id, GradeCountsRow.grader_id == grader_id)
    rows = session.execute(
        select(
            RunProblemRow.id,
            RunProblemRow.position,
            RunProblemRow.problem_id,
            RunProblemRow.group_id,
            RunProblemRow.variant,
            RunProblemRow.strategy,
            SampleCountsRow.samples,
            SampleCountsRow.truncated,
            SampleCountsRow.refused,
            SampleCountsRow.with_tokens,
            SampleCountsRow.tokens,
            func.coalesce(GradeCountsRow.correct, 0),
            func.coalesce(GradeCountsRow.wrong, 0),
            func.coalesce(GradeCountsRow.unknown, 0),
        )
        .join(SampleCountsRow, SampleCountsRow.run_problem_id == RunProblemRow.id)
        .outerjoin(GradeCountsRow, graded)
        .where(RunProblemRow.run_id == run_id)
        .order_by(RunProblemRow.position)
    )
    counts = [ProblemCounts(*cast(tuple[Any, ...], (*row, missing.get(row[0], 0)))) for row in rows]
    by_place = {problem.run_problem_id: problem for problem in counts}
    for place, before, after, samples in () if grader_id is None else human_moves(session, run_id, grader_id):
        problem, overruled = by_place[place], 0 if before == after else samples
        changes: dict[str, Any] = {
            "human": problem.human + samples,
            "overruled": problem.overruled + overruled,
        }
        if grades == "human" and overruled:
            changes[before] = getattr(problem, before) - overruled
            changes[after] = getattr(problem, after) + overruled
        by_place[place] = replace(problem, **changes)
    return list(by_place.values())


def count_tokens(
    session: Session, run_id: str, counts: Sequence[ProblemCounts]
) -> dict[int, tuple[int, int]]:
    """Return by problem of the run the completion tokens of its samples, and of how many they are known.

    Where a server counted the responses of a request together, its receipt has the sum.
    """
    if all(problem.with_tokens == problem.samples for problem in counts):
        return {problem.run_problem_id: (problem.tokens, problem.samples) for problem in counts}
    rows = session.execute(
        select(
            SampleRow.run_problem_id,
            func.count(),
            func.count(SampleRow.completion_tokens),
            func.coalesce(func.sum(SampleRow.completion_tokens), 0),
            func.max(AskRow.completion_tokens),
        )
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .outerjoin(AskRow, AskRow.id == SampleRow.ask_id)
        .where(RunProblemRow.run_id == run_id)
        .group_by(SampleRow.run_problem_id, SampleRow.ask_id)
    )
    counted: dict[int, tuple[int, int]] = {}
    for problem, samples, with_tokens, tokens, together in rows:
        total, number = counted.get(problem, (0, 0))
        if with_tokens < samples and together is not None:
            tokens, with_tokens = together, samples
        counted[problem] = (total + (tokens or 0), number + with_tokens)
    return counted
