from collections.abc import Iterator
from pathlib import Path

import pytest
from eval_runs import add_eval_run, regrade
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.exc import IntegrityError

from evaluator.evals.counts import count_samples
from evaluator.evals.human import add_human_grade, list_human_grades, withdraw_human_grade
from evaluator.evals.results import load_result
from evaluator.evals.samples import SampleFilters, browse_samples
from evaluator.evals.tables import RunProblemRow, SampleRow
from evaluator.grading import GRADER_VERSION
from service.database import Database
from service.errors import InputError
from service.runs.store import Run


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "t.db") as database:
        yield database


@pytest.fixture
def run(database: Database) -> Run:
    """Three problems of 4 samples: 1, 0 and 2 correct; the third has one of unknown grade."""
    return add_eval_run(database, "base.test", [(4, 1, 0), (4, 0, 0), (4, 2, 1)])


def sample(database: Database, run: Run, position: int, ordinal: int) -> int:
    with database.read() as session:
        id = session.scalar(
            select(SampleRow.id)
            .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
            .where(
                RunProblemRow.run_id == run.id,
                RunProblemRow.position == position,
                SampleRow.ordinal == ordinal,
            )
        )
    assert id is not None
    return id


def grade(database: Database, run: Run, position: int, ordinal: int, value: str, by: str = "ada") -> bool:
    with database.write() as session:
        return add_human_grade(
            session,
            sample(database, run, position, ordinal),
            value,  # type: ignore[arg-type]
            reviewer=by,
            comment="looked",
        )


def counted(database: Database, run: Run) -> list[tuple[int, int, int]]:
    with database.read() as session:
        counts = load_result(session, run, grades="human").counts
    return list(zip(counts.correct.tolist(), counts.unknown.tolist(), counts.n.tolist(), strict=True))


def test_the_newest_counts_until_it_is_withdrawn_and_nothing_is_ever_changed(
    database: Database, run: Run
) -> None:
    assert grade(database, run, 1, 0, "correct", "ada")
    assert not grade(database, run, 1, 0, "correct", "ada")  # said already
    assert grade(database, run, 1, 0, "wrong", "bob")
    assert counted(database, run)[1] == (0, 0, 4)
    which = sample(database, run, 1, 0)
    with database.write() as session:
        assert withdraw_human_grade(session, which, reviewer="bob") == "wrong"
        assert withdraw_human_grade(session, which, reviewer="bob") is None
    assert counted(database, run)[1] == (1, 0, 4)
    with database.write() as session:
        assert withdraw_human_grade(session, which, reviewer="ada") == "correct"
    assert counted(database, run)[1] == (0, 0, 4)
    with database.read() as session:
        rows = list_human_grades(session, run.id)
    names = ("reviewer", "before", "value", "grader", "comment")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("ada", "wrong", "correct", "wrong", "looked"),
        ("bob", "correct", "wrong", "wrong", "looked"),
    ]
    assert all(row["withdrawn_at"] for row in rows)
    for table in ("human_grades", "human_grade_withdrawals"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET created_at = ''"):
            with pytest.raises((IntegrityError, SqlError), match="append-only"), database.write() as session:
                session.execute(text(statement))


def test_a_grade_of_an_ungraded_response_counts_once_the_grader_has_been(database: Database) -> None:
    run = add_eval_run(database, "new.test", [(2, 0, 0)], graded=[0])
    grade(database, run, 0, 0, "correct")
    with database.read() as session:
        assert count_samples(session, run.id, None)[0].human == 0
        page, _ = browse_samples(session, run.id, SampleFilters(value="correct"))
    assert [header.human for header in page] == ["correct"]
    with pytest.raises(InputError, match="tagrpo eval score new"), database.read() as session:
        load_result(session, run)
    regrade(database, run, [(2, 0, 0)], GRADER_VERSION)
    assert counted(database, run) == [(1, 0, 2)]
