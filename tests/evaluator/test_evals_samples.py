"""Samples of eval runs: pages, filters, searches, grades by people, and the counts that triggers keep."""

from collections.abc import Mapping
from typing import Any

import pytest
from eval_runs import add_eval_run, regrade
from runs import Proposed, add_review, add_run, add_verdict
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.exc import IntegrityError

from evaluator.evals import samples
from evaluator.evals.counts import count_samples
from evaluator.evals.results import load_result
from evaluator.evals.tables import RunProblemRow, SampleRow
from evaluator.grading import GRADER_VERSION
from service.database import Database
from service.errors import InputError
from service.questions.question import make_question
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
        chosen = samples.SampleFilters(**filters)
        page, behind = samples.browse_samples(session, run_id, chosen, after=after, limit=limit)
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
def run(db):
    """Three problems of 4 samples: 1, 0 and 2 correct; the third has one of unknown grade."""
    return add_eval_run(db, "base.test", [(4, 1, 0), (4, 0, 0), (4, 2, 1)])


def sample(db: Database, run: Run, position: int, ordinal: int) -> int:
    with db.read() as session:
        return session.scalar(
            select(SampleRow.id)
            .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
            .where(
                RunProblemRow.run_id == run.id,
                RunProblemRow.position == position,
                SampleRow.ordinal == ordinal,
            )
        )


def grade(db: Database, run: Run, position: int, ordinal: int, value: str, by: str = "ada") -> bool:
    with db.write() as session:
        return samples.add_human_grade(
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


def test_the_newest_counts_until_it_is_withdrawn_and_nothing_is_ever_changed(db, run):
    assert grade(db, run, 1, 0, "correct", "ada")
    assert not grade(db, run, 1, 0, "correct", "ada")  # said already
    assert grade(db, run, 1, 0, "wrong", "bob")
    assert counted(db, run)[1] == (0, 0, 4)
    which = sample(db, run, 1, 0)
    with db.write() as session:
        assert samples.withdraw_human_grade(session, which, reviewer="bob") == "wrong"
        assert samples.withdraw_human_grade(session, which, reviewer="bob") is None
    assert counted(db, run)[1] == (1, 0, 4)
    with db.write() as session:
        assert samples.withdraw_human_grade(session, which, reviewer="ada") == "correct"
    assert counted(db, run)[1] == (0, 0, 4)
    with db.read() as session:
        rows = samples.list_human_grades(session, run.id)
    names = ("reviewer", "before", "value", "grader", "comment")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("ada", "wrong", "correct", "wrong", "looked"),
        ("bob", "correct", "wrong", "wrong", "looked"),
    ]
    assert all(row["withdrawn_at"] for row in rows)
    for table in ("human_grades", "human_grade_withdrawals"):
        with pytest.raises((IntegrityError, SqlError), match="append-only"), db.write() as session:
            session.execute(text(f"UPDATE {table} SET created_at = ''"))


def test_a_grade_of_an_ungraded_response_counts_once_the_grader_has_been(db):
    run = add_eval_run(db, "new.test", [(2, 0, 0)], graded=[0])
    grade(db, run, 0, 0, "correct")
    with db.read() as session:
        assert count_samples(session, run.id, None)[0].human == 0
        page, _ = samples.browse_samples(session, run.id, samples.SampleFilters(value="correct"))
    assert [header.human for header in page] == ["correct"]
    with pytest.raises(InputError, match="tagrpo eval score new"), db.read() as session:
        load_result(session, run)
    regrade(db, run, [(2, 0, 0)], GRADER_VERSION)
    assert counted(db, run) == [(1, 0, 2)]


MADE: Mapping[str, str] = {
    "sample_counts": """
        SELECT p.id, COUNT(s.id), COUNT(s.id) FILTER (WHERE s.stop_reason = 'length'),
               COUNT(s.id) FILTER (WHERE s.stop_reason IN ('content_filter', 'refusal')),
               COUNT(s.completion_tokens), COALESCE(SUM(s.completion_tokens), 0)
        FROM run_problems AS p LEFT JOIN samples AS s ON s.run_problem_id = p.id GROUP BY p.id""",
    "grade_counts": """
        SELECT run_problem_id, grader_id,
               COUNT(*) FILTER (WHERE value = 'correct'),
               COUNT(*) FILTER (WHERE value = 'wrong'),
               COUNT(*) FILTER (WHERE value = 'unknown')
        FROM grades GROUP BY 1, 2""",
    "standings": """
        SELECT p.id, p.run_id, p.question_id, p.ordinal, p.candidate_id, p.proposer, p.strategy,
               p.strategy_hash, p.model, COALESCE(r.decision, v.status, 'pending'), v.id, r.id
        FROM proposals AS p
        LEFT JOIN verdicts AS v ON v.id = (
            SELECT MAX(id) FROM verdicts WHERE run_id = p.run_id AND candidate_id = p.candidate_id)
        LEFT JOIN reviews AS r ON r.id = (
            SELECT MAX(id) FROM reviews
            WHERE candidate_id = p.candidate_id AND id NOT IN (SELECT review_id FROM review_withdrawals))""",
    "candidate_findings": """
        SELECT DISTINCT json_extract(f.value, '$.name'), c.question_id, c.id, v.run_id
        FROM verdicts AS v JOIN candidates AS c ON c.id = v.candidate_id,
             json_each(v.evidence, '$.findings') AS f
        WHERE json_extract(f.value, '$.name') IS NOT NULL""",
    "grade_sources": """
        SELECT run_problem_id, grader_id, COALESCE(source, ''), COUNT(*),
               COUNT(*) FILTER (WHERE value = 'correct')
        FROM grades GROUP BY 1, 2, 3""",
}
"""By table of counts the query that makes it anew."""

ON_POSTGRESQL = {
    "candidate_findings": """
        SELECT DISTINCT f.value ->> 'name', c.question_id, c.id, v.run_id
        FROM verdicts AS v JOIN candidates AS c ON c.id = v.candidate_id,
             json_array_elements(COALESCE(v.evidence -> 'findings', '[]')) AS f
        WHERE f.value ->> 'name' IS NOT NULL"""
}


def kept_and_made(db: Database) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return for each table of counts its rows, and the rows it would have if it were made now."""
    found = {}
    with db.read() as session:
        other = db.engine.dialect.name == "postgresql"
        for table, query in {**MADE, **(ON_POSTGRESQL if other else {})}.items():
            kept, made = (
                [tuple(row) for row in session.execute(text(statement.replace(":", "\\:")))]
                for statement in (f"SELECT * FROM {table}", query)
            )
            found[table] = sorted(kept, key=repr), sorted(made, key=repr)
    return found


def assert_counts_hold(db: Database, *filled: str) -> None:
    """Assert that every table of counts holds, and that these tables hold anything at all."""
    for table, (kept, made) in kept_and_made(db).items():
        assert kept == made, table
        assert kept or table not in filled, f"{table} is empty, so nothing was tested"


def test_samples_and_grades_are_counted(db):
    counts = [(8, 3, 1), (5, 0, 0)]
    run = add_eval_run(db, "a", counts, truncated=2, tokens=lambda _, place: None if place == 1 else place)
    regrade(db, run, [(8, 1, 0), (5, 5, 0)], "another")
    assert_counts_hold(db, "sample_counts", "grade_counts")


def test_standings_follow_verdicts_and_reviews(db):
    proposed = [Proposed("a?"), Proposed("b?", ()), Proposed("c?", ("unverified", "rejected"), model="m2")]
    run = add_run(db, "first", [("1+1=?", "2", proposed), ("1+2=?", "3", [Proposed("d?", ("undecided",))])])
    add_run(db, "second", [("1+1=?", "2", [Proposed("a?", ("rejected",))])])
    question = make_question("1+1=?", "2", "Level 3", "Algebra")
    add_review(db, question, "c?", "accepted")
    add_review(db, question, "a?", "rejected")
    add_verdict(db, run, question, "b?", "accepted")
    add_verdict(db, run, question, "a?", "undecided")
    assert_counts_hold(db, "standings")
    with db.read() as session:
        query = "SELECT c.text, status FROM standings JOIN candidates c ON c.id = candidate_id ORDER BY 1, 2"
        rows = session.execute(text(query))
        assert [tuple(row) for row in rows] == [
            ("a?", "rejected"),  # reviewed, so in both runs, whatever verdicts come later
            ("a?", "rejected"),
            ("b?", "accepted"),
            ("c?", "accepted"),
            ("d?", "undecided"),
        ]
