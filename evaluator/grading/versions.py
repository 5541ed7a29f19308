"""Versions of the grader in the database: what graded, and which answers it took."""

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.grading.tables import GraderRow
from evaluator.grading.types import GRADER_VERSION, Answers

_BOXED = "; boxed answers only"


def version_taking(answers: Answers) -> str:
    """Return this installation's version of the grader, taking these answers."""
    return GRADER_VERSION + (_BOXED if answers == "boxed" else "")


def answers_of(version: str) -> Answers:
    """Return which answers a version of the grader took."""
    return "boxed" if version.endswith(_BOXED) else "all"


def preference(id: int, version: str, answers: Answers, *, complete: bool) -> tuple[bool, bool, int]:
    """Return what to sort versions of the grader by, the one to show last.

    Those that took these answers come before others; of them this installation's if it graded everything
    (`complete`), else the newest.
    """
    return answers_of(version) == answers, complete and version == version_taking(answers), id


def grader_id(session: Session, version: str) -> int:
    """Return the id of this version of the grader, made if there is none yet, in a write transaction."""
    known = find_grader(session, version)
    if known is not None:
        return known
    made = session.execute(insert(GraderRow).values(version=version).returning(GraderRow.id))
    return made.scalar_one()


def find_grader(session: Session, version: str) -> int | None:
    """Return the id of this version of the grader, None where nothing was graded by it."""
    return session.scalar(select(GraderRow.id).where(GraderRow.version == version))
