"""Versions of the grader in the database."""

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.evals.tables import GraderRow


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
