"""Grading runs: by each version of the grader, in parts, by the answers that count."""

from collections import Counter
from collections.abc import Iterator

import pytest
from eval_runs import add_eval_run
from sqlalchemy import select

from evaluator.evals import samples
from evaluator.evals.problems import PlacedProblem, make_problem
from evaluator.evals.samples import grade_run
from evaluator.evals.tables import GradeRow
from evaluator.grading import AnswerKind, Grader
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
    assert graded == Counter(correct=3, wrong=3)
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
    assert not grade_run(db, run.id, grader, silent)


def test_parts_are_committed_and_reported_and_the_rest_is_graded_later(
    db: Database, grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "SAMPLES_PER_COMMIT", 4)
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
    assert grade_run(db, run.id, grader, silent) == Counter(correct=2)
