"""Samples of eval runs: what is planned, what grows, what is counted; problems and their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evaluator.evals.missing import (
    Block,
    asked_in_vain,
    block_item,
    most_wanted,
    read_block,
    samples_lost,
    samples_missing,
)
from evaluator.evals.problems import (
    PlacedProblem,
    RunProblem,
    make_problem,
    number_copies,
    run_problems,
    store_run_problems,
)
from evaluator.evals.running import NewSample, _gaps, insert_samples, plan_blocks
from evaluator.evals.runs import EVAL
from evaluator.grading import AnswerKind
from service.asks.tables import DONE, FAILED_TASK, TaskRow
from service.database import Database
from service.runs.store import open_run

PROBLEMS = number_copies(
    [make_problem("What is 1 + 1?", "2"), make_problem("What is 2 + 2?", "4", AnswerKind.INTEGER)]
)


def open_eval(session: Session, name: str = "r") -> tuple[str, list[RunProblem]]:
    run, _ = open_run(session, name=name, kind=EVAL, spec={"name": name}, question_ids=[], versions={})
    store_run_problems(session, run.id, [PlacedProblem(problem) for problem in PROBLEMS])
    return run.id, run_problems(session, run.id)


def draw(session: Session, run_id: str, *, stop: str = "stop") -> list[tuple[int, int]]:
    """Store the samples of every unfinished block; return (problem of the run, ordinal) of each."""
    drawn = []
    unfinished = select(TaskRow.item).where(TaskRow.run_id == run_id, TaskRow.state != DONE)
    for block in map(read_block, session.scalars(unfinished)):
        places = [(block.run_problem_id, block.first + place) for place in range(block.count)]
        insert_samples(
            session,
            [NewSample(problem, at, None, None, f"answer {at}", stop, 10, 5) for problem, at in places],
        )
        drawn += places
    session.execute(update(TaskRow).where(TaskRow.run_id == run_id).values(state=DONE))
    return drawn


def test_a_run_grows_by_what_is_missing(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        assert plan_blocks(session, run_id, problems, 6, 4) == 4  # 0-3, 4-5 of each problem
        first = draw(session, run_id)
        assert plan_blocks(session, run_id, problems, 6, 4) == 0
        assert plan_blocks(session, run_id, problems, 11, 4) == 4  # 6-9, 10 of each
        assert plan_blocks(session, run_id, problems, 11, 4) == 0  # planned already
        second = draw(session, run_id)
        assert samples_missing(session, run_id, 7) == 0
        assert samples_missing(session, run_id, 14) == 3 * len(problems)
    assert sorted(first) == sorted((p.id, ordinal) for p in problems for ordinal in range(6))
    assert sorted(second) == sorted((p.id, ordinal) for p in problems for ordinal in range(6, 11))


def test_blocks_that_failed_are_lost_and_asked_in_vain(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        plan_blocks(session, run_id, problems, 6, 4)
        failed = block_item(Block(problems[0].id, 4, 2))
        session.execute(
            update(TaskRow).where(TaskRow.item == failed).values(state=FAILED_TASK, error="time-out: none")
        )
        assert samples_lost(session, run_id, 6) == 2
        assert samples_lost(session, run_id, 5) == 1
        assert asked_in_vain(session, [run_id])[run_id] == {problems[0].id: 2}
        assert most_wanted(session, run_id) == 6


def test_samples_and_grades_are_never_changed(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        plan_blocks(session, run_id, problems, 1, 1)
        draw(session, run_id)
    for statement in ("UPDATE samples SET seed = 1", "DELETE FROM sample_texts", "DELETE FROM problems"):
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(text(statement))


@given(st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(1, 9))
def test_gaps_cover_exactly_what_is_missing(covered: set[int], n: int, longest: int) -> None:
    gaps = list(_gaps(covered, n, longest))
    ordinals = [ordinal for first, count in gaps for ordinal in range(first, first + count)]
    assert ordinals == [ordinal for ordinal in range(n) if ordinal not in covered]
    assert all(1 <= count <= longest for _, count in gaps)
