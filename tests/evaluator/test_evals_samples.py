"""Samples of eval runs: page by page, filters, the search in responses, and what people say of them."""

import pytest
from eval_runs import add_eval_run, regrade
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.exc import IntegrityError

from evaluator.evals import samples
from evaluator.evals.counts import count_samples
from evaluator.evals.results import load_result
from evaluator.evals.samples import (
    SampleFilters,
    add_human_grade,
    browse_samples,
    list_human_grades,
    withdraw_human_grade,
)
from evaluator.evals.tables import RunProblemRow, SampleRow
from evaluator.grading import GRADER_VERSION
from service.database import Database
from service.errors import InputError
from service.runs.store import Run


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with Database.open(tmp_path_factory.mktemp("browsing") / "t.db") as db:
        run = add_eval_run(
            db,
            "base.test",
            [(4, 1, 1), (4, 2, 0), (4, 0, 0)],
            truncated=[0, 1, 2],
            graded=[4, 4, 3],
            sources={"wrong": "last sentence", "unknown": None},
            tokens=lambda position, ordinal: 1000 * position + ordinal,
            texts=lambda place, ordinal, value: f"Response {ordinal} of {value.upper()}",
        )
        add_eval_run(db, "other.test", [(4, 4, 0)] * 3, seed=1)
        yield db, run.id


def browsed(stored, after=None, limit=100, **filters):
    """Return position and ordinal of the samples, and the place to go on from."""
    db, run_id = stored
    with db.read() as session:
        page, behind = browse_samples(session, run_id, SampleFilters(**filters), after=after, limit=limit)
    return [(header.position, header.ordinal) for header in page], behind


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"value": "correct"}, [(0, 0), (1, 0), (1, 1)]),
        ({"value": "unknown"}, [(0, 1)]),
        ({"value": "ungraded"}, [(2, 3)]),
        ({"source": ""}, [(0, 1), (2, 3)]),
        ({"source": "last sentence", "position": 1}, [(1, 2), (1, 3)]),
        ({"truncated": True}, [(1, 3), (2, 2), (2, 3)]),
        ({"tokens": 2002}, [(2, 2), (2, 3)]),
        ({"text": "of correct"}, [(0, 0), (1, 0), (1, 1)]),
        ({"text": "response 3", "value": "wrong"}, [(0, 3), (1, 3)]),
        ({"position": 9}, []),
    ],
)
def test_filters_restrict_the_samples_of_the_run_alone(stored, filters, expected):
    assert browsed(stored, **filters) == (expected, None)


def test_pages_follow_each_other_without_gap_or_repetition(stored):
    everything, _ = browsed(stored)
    assert everything == [(position, ordinal) for position in range(3) for ordinal in range(4)]
    for words in (None, "response"):
        places, after = browsed(stored, limit=5, text=words)
        while after is not None:
            more, after = browsed(stored, after, 5, text=words)
            places += more
        assert places == everything


def test_a_search_ends_where_it_has_read_enough_and_goes_on_from_there(stored, monkeypatch):
    monkeypatch.setattr(samples, "PART", 2)
    monkeypatch.setattr(samples, "TEXTS_READ", 4)
    assert browsed(stored, text="of unknown") == ([(0, 1)], (0, 3))
    assert browsed(stored, (0, 3), text="of unknown") == ([], (1, 3))


@pytest.fixture
def run(db: Database) -> Run:
    """Three problems of 4 samples: 1, 0 and 2 correct; the third has one of unknown grade."""
    return add_eval_run(db, "base.test", [(4, 1, 0), (4, 0, 0), (4, 2, 1)])


def sample(db: Database, run: Run, position: int, ordinal: int) -> int:
    with db.read() as session:
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


def grade(db: Database, run: Run, position: int, ordinal: int, value: str, by: str = "ada") -> bool:
    with db.write() as session:
        return add_human_grade(
            session,
            sample(db, run, position, ordinal),
            value,  # type: ignore[arg-type]
            reviewer=by,
            comment="looked",
        )


def counted(db: Database, run: Run) -> list[tuple[int, int, int]]:
    with db.read() as session:
        counts = load_result(session, run, grades="human").counts
    return list(zip(counts.correct.tolist(), counts.unknown.tolist(), counts.n.tolist(), strict=True))


def test_the_newest_counts_until_it_is_withdrawn_and_nothing_is_ever_changed(db: Database, run: Run) -> None:
    assert grade(db, run, 1, 0, "correct", "ada")
    assert not grade(db, run, 1, 0, "correct", "ada")  # said already
    assert grade(db, run, 1, 0, "wrong", "bob")
    assert counted(db, run)[1] == (0, 0, 4)
    which = sample(db, run, 1, 0)
    with db.write() as session:
        assert withdraw_human_grade(session, which, reviewer="bob") == "wrong"
        assert withdraw_human_grade(session, which, reviewer="bob") is None
    assert counted(db, run)[1] == (1, 0, 4)
    with db.write() as session:
        assert withdraw_human_grade(session, which, reviewer="ada") == "correct"
    assert counted(db, run)[1] == (0, 0, 4)
    with db.read() as session:
        rows = list_human_grades(session, run.id)
    names = ("reviewer", "before", "value", "grader", "comment")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("ada", "wrong", "correct", "wrong", "looked"),
        ("bob", "correct", "wrong", "wrong", "looked"),
    ]
    assert all(row["withdrawn_at"] for row in rows)
    for table in ("human_grades", "human_grade_withdrawals"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET created_at = ''"):
            with pytest.raises((IntegrityError, SqlError), match="append-only"), db.write() as session:
                session.execute(text(statement))


def test_a_grade_of_an_ungraded_response_counts_once_the_grader_has_been(db: Database) -> None:
    run = add_eval_run(db, "new.test", [(2, 0, 0)], graded=[0])
    grade(db, run, 0, 0, "correct")
    with db.read() as session:
        assert count_samples(session, run.id, None)[0].human == 0
        page, _ = browse_samples(session, run.id, SampleFilters(value="correct"))
    assert [header.human for header in page] == ["correct"]
    with pytest.raises(InputError, match="tagrpo eval score new"), db.read() as session:
        load_result(session, run)
    regrade(db, run, [(2, 0, 0)], GRADER_VERSION)
    assert counted(db, run) == [(1, 0, 2)]
