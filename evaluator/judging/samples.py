"""The samples that a judge is to be asked about, and what it replied so far."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session, aliased

from evaluator.evals.problems import RunProblem
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import GradeRow, SampleRow
from evaluator.grading import GradeValue
from evaluator.judging.asking import Question, read_verdict, shown_response
from service.database import Database
from service.runs.cells import read_bodies
from service.runs.tables import FILLED, FINAL, CellRow

JUDGE = "judge"
"""The kind of a judge's runs, and of their cells: one request each about one response."""

SAMPLES_AT_ONCE = 500


@dataclass(frozen=True)
class Pending:
    """A sample with its base grade and without one of the judge's version.

    `asked` is the id of what the judge is asked about it, in so many `characters`; None where of nothing.
    """

    sample_id: int
    run_problem_id: int
    row: Mapping[str, Any]
    asked: str | None
    characters: int = 0


def question_about(problem: RunProblem, text: str) -> Question | None:
    """Return what is asked about a response; None where there is nothing to compare."""
    answer = shown_response(text)
    if not answer or not problem.answer.strip():
        return None
    return Question(problem.text, problem.answer, problem.kind, problem.tolerance, answer)


def read_pending(
    db: Database, problems: Mapping[int, RunProblem], base_row: int, judge_row: int, kinds: Sequence[str]
) -> Iterator[Pending]:
    """Yield the samples of a run without a grade in the judge's version, problem by problem."""
    for problem in problems.values():
        after = -1
        while True:
            with db.read() as session:
                rows = session.execute(_base_grades(problem.id, base_row, judge_row, after)).all()
                asked_about = [row[0] for row in rows if row[2] in kinds]
                texts = read_texts(session, asked_about)
            if not rows:
                break
            for sample_id, _, value, reason, extracted, source in rows:
                question = question_about(problem, texts[sample_id]) if sample_id in texts else None
                kept = {"value": value, "reason": reason, "extracted": extracted, "source": source}
                kept["asked_about"] = sample_id in texts
                if question is None:
                    yield Pending(sample_id, problem.id, kept, None)
                else:
                    yield Pending(sample_id, problem.id, kept, question.id, len(question.text))
            after = rows[-1][1]


def _base_grades(run_problem_id: int, base_row: int, judge_row: int, after: int) -> Any:
    judged = aliased(GradeRow)
    has_judged: ColumnElement[bool] = exists().where(
        judged.sample_id == SampleRow.id, judged.grader_id == judge_row
    )
    return (
        select(
            SampleRow.id,
            SampleRow.ordinal,
            GradeRow.value,
            GradeRow.reason,
            GradeRow.extracted,
            GradeRow.source,
        )
        .join(GradeRow, GradeRow.sample_id == SampleRow.id)
        .where(
            SampleRow.run_problem_id == run_problem_id,
            SampleRow.ordinal > after,
            GradeRow.grader_id == base_row,
            ~has_judged,
        )
        .order_by(SampleRow.ordinal)
        .limit(SAMPLES_AT_ONCE)
    )


def read_verdicts(session: Session, judge: str, asked: Sequence[str]) -> dict[str, GradeValue | None]:
    """Return by question what a judge of this id replied; None without a verdict, nothing without a reply."""
    cells = session.execute(
        select(CellRow.id, CellRow.subject_id, CellRow.state).where(
            CellRow.scope == judge,
            CellRow.kind == JUDGE,
            CellRow.subject_id.in_(set(asked)),
            CellRow.state.in_([FILLED, FINAL]),
        )
    ).all()
    bodies = read_bodies(session, [cell_id for cell_id, _, state in cells if state == FILLED])
    verdicts: dict[str, GradeValue | None] = {}
    for cell_id, subject, _ in cells:
        replies = json.loads(bodies[cell_id])["replies"] if cell_id in bodies else []
        verdicts[subject] = (
            read_verdict(replies[0]["text"], truncated=replies[0]["stop_reason"] == "length")
            if replies
            else None
        )
    return verdicts
