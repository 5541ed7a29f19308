"""Samples that are not there: still to be drawn, asked for in vain, or lost for good."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.evals.human import HumanMove
from evaluator.evals.problems import count_run_problems
from evaluator.evals.tables import SAMPLE, GradeCountsRow, RunProblemRow, SampleRow
from evaluator.grading import GradeValue
from service.runs.tables import EMPTY, FAILED, FINAL, CellRow


def samples_missing(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem of a run are not there."""
    problems = count_run_problems(session, run_id)
    there = session.scalar(
        select(func.count())
        .select_from(SampleRow)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id, SampleRow.ordinal < n)
    )
    return problems * n - (there or 0)


def most_wanted(session: Session, run_id: str) -> int:
    """Return the most samples of a problem that unanswered requests stand for; 0 where there are none."""
    payload = CellRow.payload
    ends = payload["first"].as_integer() + payload["count"].as_integer()
    unanswered = select(func.max(ends)).where(
        CellRow.scope == run_id,
        CellRow.kind == SAMPLE,
        CellRow.state.in_([EMPTY, FAILED, FINAL]),
        CellRow.outcome.is_(None),  # always so; it lets the index find them
    )
    return session.scalar(unanswered) or 0


def samples_lost(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem will not come: their requests failed for good."""
    cells = select(CellRow.payload).where(
        CellRow.scope == run_id, CellRow.kind == SAMPLE, CellRow.state == FINAL
    )
    return sum(
        max(0, min(n, payload["first"] + payload["count"]) - payload["first"])
        for payload in session.scalars(cells)
    )


def asked_in_vain(session: Session, run_ids: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return by run and by problem of the run the samples whose requests got no answer, for good or so far.

    Nobody knows what they would have been, so every pass@k takes them as unknown. What was not asked for yet
    is no part of it: why it is not there has nothing to do with the answer.
    """
    cells = select(CellRow.scope, CellRow.payload).where(
        CellRow.scope.in_(run_ids),
        CellRow.kind == SAMPLE,
        CellRow.state.in_([FAILED, FINAL]),
        CellRow.outcome.is_(None),  # always so; it lets the index find them
    )
    missing: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for run_id, payload in session.execute(cells):
        missing[run_id][payload["run_problem"]] += payload["count"]
    return missing


def rates_of_short(
    session: Session, run_ids: Sequence[str], moves: Mapping[int, Sequence[HumanMove]]
) -> dict[tuple[str, int], tuple[int, float]]:
    """Return by run and grader what samples asked for in vain add: problems that have no other, sum of rates.

    Args:
        moves: what people's grades say of the runs' problems; they count.
    """
    row = GradeCountsRow
    added: dict[tuple[str, int], tuple[int, float]] = {}
    for run_id, missing in asked_in_vain(session, run_ids).items():
        counted: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        for grader_id, place, correct, graded in session.execute(
            select(row.grader_id, row.run_problem_id, row.correct, row.correct + row.wrong + row.unknown)
            .join(RunProblemRow, RunProblemRow.id == row.run_problem_id)
            .where(RunProblemRow.run_id == run_id)
        ):
            moved = _moved_to_correct(moves.get(place, ()), grader_id)
            counted[grader_id][place] = correct + moved, graded
        for grader_id, counts in counted.items():
            alone = sum(place not in counts for place in missing)
            short = [(*counts[place], count) for place, count in missing.items() if place in counts]
            rates = sum(correct / (graded + count) - correct / graded for correct, graded, count in short)
            added[run_id, grader_id] = alone, rates
    return added


def _moved_to_correct(moves: Sequence[HumanMove], grader_id: int) -> int:
    right = GradeValue.CORRECT
    return sum(
        ((move.after == right) - (move.before == right)) * move.samples
        for move in moves
        if move.grader_id == grader_id
    )
