"""Grading runs: by each version of the grader, in parts, by the answers that count."""

from collections.abc import Iterator

import pytest
from eval_runs import add_eval_run, make_problems
from sqlalchemy import select

from evaluator.evals import grading
from evaluator.evals.grading import Graded, grade_changes, grade_run
from evaluator.evals.overview import choose_version, other_version
from evaluator.evals.problems import PlacedProblem, make_problem
from evaluator.evals.results import load_result
from evaluator.evals.tables import GradeRow
from evaluator.grading import GRADER_VERSION, AnswerKind, Grader
from evaluator.grading.versions import version_taking
from service.database import Database


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1) as made:
        yield made


def silent(done: int, total: int) -> None:
    pass


def test_samples_without_a_grade_are_graded_by_kind(db: Database, grader: Grader) -> None:
    problems = [
        make_problem("1 + 1?", "2", AnswerKind.INTEGER),
        make_problem("Which?", "B", AnswerKind.CHOICE),
        make_problem("How much?", "3.00", AnswerKind.TOLERANCE, "1e-1"),
    ]
    said = {"1 + 1?": "\\boxed{02}", "Which?": "The answer is (B).", "How much?": "\\boxed{3.05}"}

    def text(place: PlacedProblem, ordinal: int, grade: str) -> str:
        return said[place.problem.text] if ordinal else ""

    run = add_eval_run(db, "r", [(2, 0, 0)] * 3, problems=problems, texts=text, graded=[0, 0, 0])
    graded = grade_run(db, run.id, grader, silent)
    assert graded == Graded(correct=3, wrong=3, unknown=0)
    with db.read() as session:
        rows = session.scalars(select(GradeRow).order_by(GradeRow.sample_id)).all()
        assert [(row.value, row.reason, row.source) for row in rows] == [
            ("wrong", "no answer found", None),
            ("correct", "numeric", "box"),
            ("wrong", "no answer found", None),
            ("correct", "choice", "marker"),
            ("wrong", "no answer found", None),
            ("correct", "tolerance", "box"),
        ]
        assert [row.extracted for row in rows] == [None, "02", None, "(B)", None, "3.05"]
    assert grade_run(db, run.id, grader, silent).samples == 0


def test_parts_are_committed_and_reported_and_the_rest_is_graded_later(
    db: Database, grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "SAMPLES_PER_COMMIT", 4)
    run = add_eval_run(db, "r", [(3, 1, 0), (3, 3, 0)], graded=[0, 0])

    class Stop(Exception):
        pass

    steps: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        steps.append((done, total))
        if done:
            raise Stop

    with pytest.raises(Stop):
        grade_run(db, run.id, grader, report)
    assert steps == [(0, 6), (4, 6)]
    assert grade_run(db, run.id, grader, silent) == Graded(2, 0, 0)


def test_another_version_grades_anew_and_the_changes_are_told(db: Database, grader: Grader) -> None:
    def text(place: PlacedProblem, ordinal: int, grade: str) -> str:
        return f"\\boxed{{{place.problem.answer}}}" if ordinal < 2 else "\\boxed{77}"

    # The old grader called two of four correct; by the texts that holds for the first problem only.
    run = add_eval_run(
        db, "r", [(4, 2, 0), (4, 3, 1)], problems=make_problems(2), texts=text, grader_version="old grader"
    )
    graded = grade_run(db, run.id, grader, silent)
    assert graded == Graded(4, 4, 0)
    with db.read() as session:
        assert other_version(session, run.id, GRADER_VERSION) == "old grader"
        assert other_version(session, run.id, "old grader") == GRADER_VERSION
        changes = grade_changes(session, run, "old grader", GRADER_VERSION)
        assert [[c[name] for name in ("position", "ordinal", "old", "new", "gold")] for c in changes] == [
            [1, 2, "correct", "wrong", "2"],
            [1, 3, "unknown", "wrong", "2"],
        ]
        assert changes[0]["new_extracted"] == "77"
        assert grade_changes(session, run, GRADER_VERSION, GRADER_VERSION) == []
        assert grade_changes(session, run, "never was", GRADER_VERSION) == []


ALL, BOXED = version_taking("all"), version_taking("boxed")


def sentence(place: PlacedProblem, ordinal: int, grade: str) -> str:
    """Every response is right; those of even ordinals box their answer."""
    answer = place.problem.answer
    return f"\\boxed{{{answer}}}" if ordinal % 2 == 0 else f"The answer is {answer}."


def test_boxed_answers_alone_count_where_the_run_says_so(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 0, 0)], texts=sentence, graded=[0])
    with Grader(workers=1) as grader:
        for version, expected in ((ALL, Graded(4, 0, 0)), (BOXED, Graded(2, 2, 0))):
            assert grade_run(db, run.id, grader, lambda *_: None, version=version) == expected
    with db.read() as session:
        assert load_result(session, run).sources.grades == {"box": 2, "marker": 2}
        boxed = load_result(session, run, choose_version(session, [run], "boxed"))
        assert (boxed.grader_version, boxed.sources.grades) == (BOXED, {"box": 2, "none found": 2})
        changes = grade_changes(session, run, ALL, BOXED)
        assert other_version(session, run.id, BOXED) == ALL
    assert [tuple(one[name] for name in ("old", "old_source", "new", "new_source")) for one in changes] == [
        ("correct", "marker", "wrong", None)
    ] * 2
