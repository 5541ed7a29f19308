"""Samples that are not there: still to be drawn, asked for in vain, or lost for good."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, and_, case, func, select
from sqlalchemy.orm import Session

from evaluator.evals.human import HumanMove
from evaluator.evals.tables import SAMPLE, GradeCountsRow, RunProblemRow, SampleCountsRow, SampleRow
from evaluator.grading import GradeValue
from service.runs.tables import EMPTY, FAILED, FINAL, CellRow

_KIND = func.coalesce(CellRow.kind, "")  # a value that no index holds, see `_in_state`


def samples_missing(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem of a run are not there."""
    return sum(missing_by_problem(session, run_id, n).values())


def missing_by_problem(session: Session, run_id: str, n: int) -> dict[int, int]:
    """Return by problem of a run, in order, how many of `n` samples are not there.

    By the counts of samples. Only where a problem has samples beyond `n` are its rows counted.
    """
    last = select(func.max(SampleRow.ordinal)).where(SampleRow.run_problem_id == RunProblemRow.id)
    rows = session.execute(
        select(RunProblemRow.id, SampleCountsRow.samples, last.scalar_subquery())
        .join(SampleCountsRow, SampleCountsRow.run_problem_id == RunProblemRow.id)
        .where(RunProblemRow.run_id == run_id)
        .order_by(RunProblemRow.position)
    ).all()
    missing = {}
    for problem, samples, last_ordinal in rows:
        there = samples
        if last_ordinal is not None and last_ordinal >= n:
            below = select(func.count()).where(SampleRow.run_problem_id == problem, SampleRow.ordinal < n)
            there = session.scalar(below) or 0
        missing[problem] = n - there
    return missing


def promised_by_position(session: Session, run_id: str, n: int) -> dict[int, int]:
    """Return by a problem's position how many of its first `n` samples unanswered requests stand for."""
    return _unanswered(session, run_id, n, [EMPTY, FAILED, FINAL])


def most_wanted(session: Session, run_id: str) -> int:
    """Return the most samples of a problem that unanswered requests stand for; 0 where there are none."""
    payload = CellRow.payload
    ends = payload["first"].as_integer() + payload["count"].as_integer()
    unanswered = (
        select(func.max(ends)).where(_in_state([run_id], state), _KIND == SAMPLE)
        for state in (EMPTY, FAILED, FINAL)
    )
    return max(session.scalar(query) or 0 for query in unanswered)


def samples_lost(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem will not come: their requests failed for good."""
    return sum(_unanswered(session, run_id, n, [FINAL]).values())


def _unanswered(session: Session, run_id: str, n: int, states: Sequence[str]) -> dict[int, int]:
    """Return by position how many of a problem's first `n` samples cells in these states stand for."""
    first, count = CellRow.ordinal, CellRow.payload["count"].as_integer()
    within = case((first + count > n, n - first), else_=count)
    promised: dict[int, int] = defaultdict(int)
    for state in states:
        rows = session.execute(
            select(CellRow.round, func.sum(within))
            .where(_in_state([run_id], state), _KIND == SAMPLE, first < n)
            .group_by(CellRow.round)
        )
        for position, samples in rows:
            promised[position] += int(samples)
    return promised


def _in_state(run_ids: Sequence[str], state: str) -> ColumnElement[bool]:
    """Return the condition of the runs' cells in a state that comes before any outcome.

    So that SQLite finds them by the index of what is unread: one that holds all of a run's cells seems as
    good to it where several states are asked for, or a kind can be looked up.
    """
    return and_(CellRow.scope.in_(run_ids), CellRow.state == state, CellRow.outcome.is_(None))


def asked_in_vain(session: Session, run_ids: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return by run and by problem of the run the samples whose requests got no answer, for good or so far.

    Nobody knows what they would have been, so every pass@k takes them as unknown. What was not asked for yet
    is no part of it: why it is not there has nothing to do with the answer.
    """
    missing: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for state in (FAILED, FINAL):
        cells = select(CellRow.scope, CellRow.payload).where(_in_state(run_ids, state), _KIND == SAMPLE)
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
