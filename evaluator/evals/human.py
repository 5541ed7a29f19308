"""Human grades of samples: store, withdraw and list them, whatever the version of the grader.

If a sample has one, it overrides the grader's; a sample that the grader has not graded does not count.
"""

from typing import Any, Literal

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.evals.counts import newest_grades
from evaluator.evals.overview import shown_grader
from evaluator.evals.tables import (
    GradeRow,
    HumanGradeRow,
    HumanGradeWithdrawalRow,
    RunProblemRow,
    SampleRow,
)
from service.database import utc_now
from service.errors import InputError, NotFoundError

HumanValue = Literal["correct", "wrong"]
MAX_COMMENT = 2_000


def add_human_grade(
    session: Session, sample_id: int, value: HumanValue, *, reviewer: str, comment: str = ""
) -> bool:
    """Append a person's grade of a sample; return whether it was new: what counts already is left alone."""
    if not reviewer.strip():
        raise InputError("a grade needs a reviewer name. Pass --reviewer NAME.")
    if len(comment) > MAX_COMMENT:
        raise InputError(f"the comment has {len(comment):,} characters; the maximum is {MAX_COMMENT:,}.")
    of_sample = (
        select(RunProblemRow.id, RunProblemRow.run_id).join(SampleRow).where(SampleRow.id == sample_id)
    )
    place = session.execute(of_sample).one_or_none()
    if place is None:
        raise NotFoundError(f"sample {sample_id} is not in the database.")
    standing = session.scalar(
        select(HumanGradeRow).where(
            HumanGradeRow.sample_id == sample_id, HumanGradeRow.id.in_(newest_grades())
        )
    )
    row = {"reviewer": reviewer.strip(), "value": value, "comment": comment.strip()}
    if standing is not None and all(getattr(standing, name) == text for name, text in row.items()):
        return False
    counted = standing or session.get(GradeRow, (sample_id, shown_grader(session, place.run_id) or -1))
    before = counted and counted.value
    places = {"sample_id": sample_id, "run_problem_id": place.id, "before": before, "created_at": utc_now()}
    session.execute(insert(HumanGradeRow), [{**row, **places}])
    return True


def withdraw_human_grade(session: Session, sample_id: int, *, reviewer: str) -> str | None:
    """Take a person's newest grade of a sample back; return what it said, None where there is none of theirs.

    It stays in the database, and what was said before counts again.
    """
    row = session.scalar(
        select(HumanGradeRow)
        .where(
            HumanGradeRow.sample_id == sample_id,
            HumanGradeRow.reviewer == reviewer.strip(),
            HumanGradeRow.id.not_in(select(HumanGradeWithdrawalRow.human_grade_id)),
        )
        .order_by(HumanGradeRow.id.desc())
        .limit(1)
    )
    if row is None:
        return None
    session.execute(insert(HumanGradeWithdrawalRow), [{"human_grade_id": row.id, "created_at": utc_now()}])
    return row.value


def list_human_grades(session: Session, run_id: str, sample_id: int | None = None) -> list[dict[str, Any]]:
    """Return the grades by people of a run's samples, or of one sample, oldest first, withdrawn ones too.

    `before` is the grade that counted until then, `grader` what the grader says now.
    """
    query = (
        select(
            HumanGradeRow.id,
            RunProblemRow.position,
            RunProblemRow.problem_id,
            SampleRow.ordinal,
            HumanGradeRow.reviewer,
            HumanGradeRow.before,
            HumanGradeRow.value,
            HumanGradeRow.comment,
            HumanGradeRow.created_at,
            HumanGradeWithdrawalRow.created_at.label("withdrawn_at"),
            GradeRow.value.label("grader"),
        )
        .join(RunProblemRow, RunProblemRow.id == HumanGradeRow.run_problem_id)
        .join(SampleRow, SampleRow.id == HumanGradeRow.sample_id)
        .outerjoin(HumanGradeWithdrawalRow, HumanGradeWithdrawalRow.human_grade_id == HumanGradeRow.id)
        .outerjoin(
            GradeRow,
            (GradeRow.sample_id == HumanGradeRow.sample_id)
            & (GradeRow.grader_id == shown_grader(session, run_id)),
        )
        .where(RunProblemRow.run_id == run_id)
        .order_by(HumanGradeRow.id)
    )
    if sample_id is not None:
        query = query.where(HumanGradeRow.sample_id == sample_id)
    return [row._asdict() for row in session.execute(query)]
