from collections.abc import Iterator
from pathlib import Path

import pytest
from eval_runs import add_eval_run, regrade
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.exc import IntegrityError

from evaluator.evals.human import (
    add_human_grade,
    human_moves,
    list_human_grades,
    total_moves,
    withdraw_human_grade,
)
from evaluator.evals.overview import runs_overview, shown_grader
from evaluator.evals.results import human_effect, load_result
from evaluator.evals.samples import HUMAN, SampleFilters, browse_samples, count_samples
from evaluator.evals.tables import HumanGradeRow, RunProblemRow, SampleRow
from evaluator.evals.votes import read_answers
from evaluator.grading import GRADER_VERSION
from evaluator.grading.versions import find_grader, other_tool
from evaluator.reports.layout import report_document
from evaluator.reports.methods import load_methods
from evaluator.reports.records import records
from evaluator.reports.report import build_report
from evaluator.signal.sources.eval_runs import load_runs
from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.removing import holdings, remove_run
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
        grader = shown_grader(session, run.id)
        return add_human_grade(
            session,
            sample(database, run, position, ordinal),
            value,  # type: ignore[arg-type]
            reviewer=by,
            comment="looked",
            grader_id=grader.id if grader else None,
        )


def counted(database: Database, run: Run, grades: str = "human") -> list[tuple[int, int, int]]:
    with database.read() as session:
        result = load_result(session, run, grades=grades)  # type: ignore[arg-type]
    counts = result.counts
    return list(zip(counts.correct.tolist(), counts.unknown.tolist(), counts.n.tolist(), strict=True))


def test_a_persons_grade_counts_in_place_of_the_graders(database: Database, run: Run) -> None:
    assert counted(database, run) == [(1, 0, 4), (0, 0, 4), (2, 1, 4)]
    assert grade(database, run, 1, 0, "correct")  # the grader says wrong
    assert grade(database, run, 0, 0, "wrong")  # correct
    assert grade(database, run, 2, 2, "correct")  # unknown
    assert grade(database, run, 2, 0, "correct")  # correct, as the grader says
    assert counted(database, run) == [(0, 0, 4), (1, 0, 4), (3, 0, 4)]
    assert counted(database, run, "grader") == [(1, 0, 4), (0, 0, 4), (2, 1, 4)]
    with database.read() as session:
        result = load_result(session, run)
        by_grader = load_result(session, run, grades="grader")
        (overview,) = runs_overview(session, [run])
        effects = human_effect(session, run)
    assert (result.human, result.overruled) == (by_grader.human, by_grader.overruled) == (4, 3)
    assert (overview.human, overview.correct, overview.wrong, overview.unknown) == (4, 4, 8, 0)
    assert overview.mean == pytest.approx(4 / 12)
    assert [(at.k, at.grader, at.human) for at in effects] == [
        (1, pytest.approx(3 / 12), pytest.approx(4 / 12)),
        (4, pytest.approx(2 / 3), pytest.approx(2 / 3)),
    ]


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
        rows = list_human_grades(session, run.id, find_grader(session, GRADER_VERSION))
    assert [(row.reviewer, row.before, row.value, row.grader, row.comment) for row in rows] == [
        ("ada", "wrong", "correct", "wrong", "looked"),
        ("bob", "correct", "wrong", "wrong", "looked"),
    ]
    assert all(row.withdrawn_at for row in rows)
    for table in ("human_grades", "human_grade_withdrawals"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET created_at = ''"):
            with pytest.raises((IntegrityError, SqlError), match="append-only"), database.write() as session:
                session.execute(text(statement))


def test_grading_anew_leaves_peoples_grades_counted(database: Database, run: Run) -> None:
    grade(database, run, 1, 0, "correct")
    regrade(database, run, [(4, 2, 0), (4, 0, 0), (4, 0, 0)], "another")
    with database.read() as session:
        newer = load_result(session, run, "another")
        totals = total_moves(human_moves(session, [run.id]))
    assert newer.counts.correct.tolist() == [2, 1, 0]
    assert (newer.human, newer.overruled) == (1, 1)
    assert sorted(moved.samples for moved in totals.values()) == [1, 1]


def test_samples_are_browsed_by_the_grade_that_counts(database: Database, run: Run) -> None:
    grade(database, run, 1, 0, "correct")
    grade(database, run, 0, 0, "wrong")

    def places(value: str) -> list[tuple[int, int]]:
        with database.read() as session:
            page = browse_samples(session, run.id, SampleFilters(value=value))
        return [(position, header.ordinal) for position, header in page.samples]

    assert places("correct") == [(1, 0), (2, 0), (2, 1)]
    assert places(HUMAN) == [(0, 0), (1, 0)]
    assert (0, 0) in places("wrong")


def test_reports_say_how_many_grades_are_human_and_show_both(database: Database, run: Run) -> None:
    grade(database, run, 1, 0, "correct")
    grade(database, run, 2, 0, "correct")
    notes, rows = {}, {}
    for grades in ("human", "grader"):
        with database.read() as session:
            built = build_report(load_methods(session, ["base"], grades=grades), ks=[1])  # type: ignore[arg-type]
        notes[grades] = [note for note in report_document(built).notes if "human grade" in note]
        rows[grades] = records(built)[0]
    counts = "(base, test: 2, 1 of them different from the grader's)"
    counted = f"2 human grades counted instead of the grader's {counts}; --grades grader leaves them out."
    assert notes["human"] == [counted]
    assert notes["grader"] == [f"2 human grades not counted {counts}; --grades human includes them."]
    assert [rows[grades]["value"] for grades in ("human", "grader")] == pytest.approx([4 / 12, 3 / 12])
    assert [rows[grades]["grades"] for grades in ("human", "grader")] == ["human", "grader"]
    assert all((row["human_grades"], row["overruled"]) == (2, 1) for row in rows.values())


def test_majorities_count_them_and_the_training_signal_does_not(database: Database, run: Run) -> None:
    grade(database, run, 1, 0, "correct")
    with database.read() as session:
        voted = list(read_answers(session, run.id, GRADER_VERSION).values())[1]
        by_grader = list(read_answers(session, run.id, GRADER_VERSION, "grader").values())[1]
        (checkpoint,) = load_runs(session, ["base.test"])
    assert sorted(value for value, _ in voted.elements()) == ["correct", "wrong", "wrong", "wrong"]
    assert [value for value, _ in by_grader.elements()] == ["wrong"] * 4
    assert [group.prompts[0].correct for group in checkpoint.groups] == [1, 0, 2]


def test_a_grade_of_an_ungraded_response_counts_once_the_grader_has_been(database: Database) -> None:
    run = add_eval_run(database, "new.test", [(2, 0, 0)], graded=[0])
    grade(database, run, 0, 0, "correct")
    with database.read() as session:
        assert count_samples(session, run.id, None)[0].human == 0
        page = browse_samples(session, run.id, SampleFilters(value="correct"))
    assert [header.human for _, header in page.samples] == ["correct"]
    with pytest.raises(InputError, match="tagrpo eval score new"), database.read() as session:
        load_result(session, run)
    regrade(database, run, [(2, 0, 0)], GRADER_VERSION)
    assert counted(database, run) == [(1, 0, 2)]


def test_nothing_counts_where_another_tool_alone_has_graded(database: Database) -> None:
    run = add_eval_run(database, "outside.test", [(2, 1, 0)], grader_version=other_tool("score"))
    grade(database, run, 0, 0, "wrong")
    with database.read() as session:
        (problem,) = count_samples(session, run.id, None)
    assert (problem.correct, problem.wrong, problem.human) == (0, 0, 0)


def test_they_go_with_their_run_and_are_counted_before(database: Database, run: Run) -> None:
    grade(database, run, 1, 0, "correct")
    with database.write() as session:
        withdraw_human_grade(session, sample(database, run, 1, 0), reviewer="ada")
    with database.write() as session:
        rows = holdings(session, run).rows
        assert (rows["human_grades"], rows["human_grade_withdrawals"]) == (1, 1)
        remove_run(session, run)
    with database.read() as session:
        assert session.scalars(select(HumanGradeRow.id)).all() == []


def test_what_cannot_be_a_grade_is_refused(database: Database, run: Run) -> None:
    with pytest.raises(InputError, match="--reviewer"):
        grade(database, run, 0, 0, "correct", " ")
    with pytest.raises(InputError, match="correct or wrong"):
        grade(database, run, 0, 0, "unknown")
    with pytest.raises(NotFoundError, match="sample 99999"), database.write() as session:
        add_human_grade(session, 99999, "correct", reviewer="ada")
