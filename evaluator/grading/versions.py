"""The grader in the database: its versions, and the grades of each that are computed once.

Only what needed algebra is written; the rest is computed again faster than it is read. An grade that
hangs on the machine (time-out, memory, crash) is never kept: another try may do better.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from sqlalchemy import ColumnElement, ForeignKey, insert, select
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from evaluator.grading.types import GRADER_VERSION, Answers, Grade, GradeValue
from evaluator.grading.workers.tasks import Task
from service.database import Database, in_parts, upsert
from service.database.base import BY_KEY_ALONE, Base

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


class CachedGradeRow(Base):
    """A grade of (gold, extracted answer) by one version of the grader."""

    __tablename__ = "verdict_cache"
    grader_id: Mapped[int] = mapped_column(ForeignKey("graders.id"), primary_key=True)
    key: Mapped[bytes] = mapped_column(primary_key=True)  # 16 bytes; see `task_key`
    value: Mapped[str]
    reason: Mapped[str]

    __table_args__ = (BY_KEY_ALONE,)


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


def is_judged(version: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition that grades of a judge model stand in a version."""
    return version.startswith(_JUDGE)


def grader_id(session: Session, version: str) -> int:
    """Return the id of this version of the grader, made if there is none yet, in a write transaction."""
    grader = find_grader(session, version)
    if grader is not None:
        return grader
    made = session.execute(insert(GraderRow).values(version=version).returning(GraderRow.id))
    return made.scalar_one()


def find_grader(session: Session, version: str) -> int | None:
    """Return the id of this version of the grader, None where nothing was graded by it."""
    return session.scalar(select(GraderRow.id).where(GraderRow.version == version))


class GradeCache:
    """Grades that are kept in a database, for this version of the grader.

    A database opened read-only is read and never written to.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def load(self, tasks: Iterable[Task]) -> dict[Task, Grade]:
        """The stored grades of those tasks that have one."""
        tasks_by_key = {task_key(task): task for task in tasks}
        stored: dict[Task, Grade] = {}
        row = CachedGradeRow
        with self._db.read() as session:
            grader = find_grader(session, GRADER_VERSION)
            for wanted in in_parts(list(tasks_by_key) if grader is not None else []):
                kept = session.execute(
                    select(row.key, row.value, row.reason).where(row.grader_id == grader, row.key.in_(wanted))
                )
                for key, value, reason in kept:
                    stored[tasks_by_key[key]] = Grade(GradeValue(value), None, reason)
        return stored

    def save(self, grades: Mapping[Task, Grade]) -> None:
        """Stores the lasting ones of these grades, in one transaction; one that is there stays."""
        lasting = {task_key(task): grade for task, grade in grades.items() if grade.is_lasting}
        if not lasting or self._db.read_only:
            return
        with self._db.write() as session:
            grader = grader_id(session, GRADER_VERSION)
            rows = [
                {"grader_id": grader, "key": key, "value": grade.value.value, "reason": grade.reason}
                for key, grade in lasting.items()
            ]
            session.execute(upsert(CachedGradeRow).on_conflict_do_nothing(), rows)


def task_key(task: Task) -> bytes:
    """16 bytes of BLAKE2b over what is asked, the kind, the tolerance and both answers."""
    parts = (task.what, task.kind.value, task.tolerance or "", task.first, task.second)
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    lengths = ",".join(str(len(part)) for part in encoded).encode()
    return blake2b(b"".join([lengths, b";", *encoded]), digest_size=16).digest()
