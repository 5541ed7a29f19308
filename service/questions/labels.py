"""How many questions there are, by subject and level: from counts that a trigger keeps."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.questions.tables import QuestionLabelsRow


@dataclass(frozen=True)
class LabelCount:
    """Questions of a subject and level; None where the source gave none."""

    subject: str | None
    level: str | None
    questions: int


def count_labels(session: Session) -> list[LabelCount]:
    """Return the number of questions by subject and level, in their order; the sum is all questions."""
    rows = session.execute(
        select(QuestionLabelsRow.subject, QuestionLabelsRow.level, QuestionLabelsRow.questions).order_by(
            QuestionLabelsRow.subject, QuestionLabelsRow.level
        )
    )
    return [LabelCount(subject or None, level or None, number) for subject, level, number in rows]
