"""The versions of the grader, and of other graders, in the database."""

from sqlalchemy import ColumnElement, insert, select
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from evaluator.grading.types import GRADER_VERSION, Answers
from service.database.base import Base

_BOXED = "; boxed answers only"
_OTHER_TOOL = "other tool: "
_JUDGE = "judge "
JUDGE_REASON = "judge"
"""The first word of the reason of a grade that a judge model gave; its name and its prompt follow."""


class GraderRow(Base):
    """A version of the grader, and which answers it took."""

    __tablename__ = "graders"
    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(unique=True)


def version_taking(answers: Answers) -> str:
    """Return this installation's version of the grader, taking these answers."""
    return GRADER_VERSION + (_BOXED if answers == "boxed" else "")


def answers_of(version: str) -> Answers:
    """Return which answers a version of the grader took."""
    return "boxed" if version.endswith(_BOXED) else "all"


def other_tool(scorer: str | None) -> str:
    """Return the version under which another tool's grades are stored; they are never taken for ours."""
    return f"{_OTHER_TOOL}{scorer or 'score'}"


def is_other_tool(version: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition that a version is that of another tool."""
    return version.startswith(_OTHER_TOOL)


def judge_version(model: str, prompt: str, asked: str, base: str) -> str:
    """Return the version of grades of `base` with those of a judge model in their place where it was asked.

    Args:
        prompt: the version of what the model is asked, with settings that shape its replies.
        asked: which grades it was asked about.
        base: the version that graded all samples first.
    """
    return f"{_JUDGE}{model}; prompt {prompt}; of {asked}; over {base}"


def judge_of(version: str) -> str | None:
    """Return the judge model whose grades stand in a version, None where none do."""
    return version.removeprefix(_JUDGE).partition("; prompt ")[0] if version.startswith(_JUDGE) else None


def grader_id(session: Session, version: str) -> int:
    """Return the id of this version of the grader, made if there is none yet, in a write transaction."""
    made = insert(GraderRow).values(version=version).returning(GraderRow.id)
    return find_grader(session, version) or session.execute(made).scalar_one()


def find_grader(session: Session, version: str) -> int | None:
    """Return the id of this version of the grader, None where nothing was graded by it."""
    return session.scalar(select(GraderRow.id).where(GraderRow.version == version))
