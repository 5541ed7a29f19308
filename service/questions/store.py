"""Questions and named sets in the database: store, load, describe, remove."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from service.answer_kinds import AnswerKind
from service.database import in_parts, upsert, utc_now
from service.errors import InputError, NotFoundError
from service.hashing import content_hash
from service.questions.question import Question
from service.questions.tables import QuestionRow, QuestionSetMemberRow, QuestionSetRow
from service.runs.store import list_runs


@dataclass(frozen=True)
class Member:
    """A question's place in a set: its row in the source (from 0), and why it is held back, if it is."""

    position: int
    question: Question
    held: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {"row": self.position, **self.question.to_json(), "held": self.held}


def members_hash(members: Iterable[tuple[int, str]]) -> str:
    """Return the content hash of a set: of its (position, question id) pairs in order."""
    return content_hash("question-set", [[position, id] for position, id in members])


def store_questions(session: Session, questions: Iterable[Question]) -> int:
    """Insert the questions that are not in the database yet; return how many those are.

    A question's labels stay those of its first import, since its row is never changed.
    """
    count, now = select(func.count()).select_from(QuestionRow), utc_now()
    before = session.scalar(count) or 0
    for part in in_parts(list(questions)):
        rows = [{**vars(each), "images": [*each.images] or None, "created_at": now} for each in part]
        session.execute(upsert(QuestionRow).on_conflict_do_nothing(), rows)
    return (session.scalar(count) or 0) - before


def default_set_name(stem: str) -> str:
    """Return the file's name as the name of a set: what may not stand in one becomes "-"."""
    return re.sub(r"[^\w.-]+", "-", stem).strip("-._")[:100]


def store_set(session: Session, name: str, members: Sequence[Member], spec: dict[str, Any]) -> int:
    """Write a new set in the caller's transaction; return how many of its questions are new."""
    if find_set(session, name) is not None:
        raise InputError(f'the question set "{name}" already exists. Choose another name with --name.')
    new = store_questions(session, (member.question for member in members))
    row = QuestionSetRow(name=name, spec=spec, created_at=utc_now())
    session.add(row)
    session.flush()
    for chunk in in_parts(members):
        session.execute(
            insert(QuestionSetMemberRow),
            [
                {
                    "set_id": row.id,
                    "position": member.position,
                    "question_id": member.question.id,
                    "held": member.held,
                }
                for member in chunk
            ],
        )
    return new


def find_set(session: Session, name: str) -> QuestionSetRow | None:
    """Return the set of that name, or None."""
    return session.scalar(select(QuestionSetRow).where(QuestionSetRow.name == name))


def get_set(session: Session, name: str) -> QuestionSetRow:
    """Return the set of that name."""
    question_set = find_set(session, name)
    if question_set is not None:
        return question_set
    names = session.scalars(select(QuestionSetRow.name).order_by(QuestionSetRow.name)).all()
    there = f"available: {', '.join(names)}" if names else "import one with `tagrpo questions import`"
    raise NotFoundError(f'no question set "{name}"; {there}.')


def check_removable(session: Session, name: str) -> QuestionSetRow:
    """Return the set of that name, which nothing builds on."""
    stored = get_set(session, name)
    runs = [run.name for run in list_runs(session) if run.spec.get("questions") == name]
    mixes = [
        other.name
        for other in session.scalars(select(QuestionSetRow).order_by(QuestionSetRow.name))
        if name in {other.spec[part]["set"] for part in ("base", "extra") if part in other.spec}
    ]
    obstacles = [
        *([f"these runs use it: {', '.join(runs)} (`tagrpo runs remove`)"] if runs else []),
        *([f"these sets were mixed from it: {', '.join(mixes)}"] if mixes else []),
    ]
    if obstacles:
        raise InputError(f'the question set "{name}" cannot be removed: {"; ".join(obstacles)}.')
    return stored


def remove_set(session: Session, name: str) -> None:
    """Remove the set of that name, in the transaction of `session`; its questions stay, as all texts do."""
    id = check_removable(session, name).id
    session.execute(delete(QuestionSetMemberRow).where(QuestionSetMemberRow.set_id == id))
    session.execute(delete(QuestionSetRow).where(QuestionSetRow.id == id))


def load_members(session: Session, name: str) -> list[Member]:
    """Return all members of a set in order, held ones included."""
    wanted = get_set(session, name)
    rows = session.execute(
        select(QuestionSetMemberRow.position, QuestionSetMemberRow.held, *QUESTION_COLUMNS)
        .join(QuestionRow, QuestionRow.id == QuestionSetMemberRow.question_id)
        .where(QuestionSetMemberRow.set_id == wanted.id)
        .order_by(QuestionSetMemberRow.position)
    )
    return [Member(row.position, as_question(row), row.held) for row in rows]


def load_question_set(session: Session, name: str) -> list[Question]:
    """Return the usable questions of a set (those not held back), in order."""
    return [member.question for member in load_members(session, name) if member.held is None]


def usable_ids(session: Session, name: str, limit: int | None) -> list[str]:
    """Return the ids of the usable questions of a set, in order, at most `limit`."""
    member = QuestionSetMemberRow
    usable = (member.set_id == get_set(session, name).id, member.held.is_(None))
    query = select(member.question_id).where(*usable).order_by(member.position)
    return list(session.scalars(query.limit(limit)))


def question_texts(session: Session, question_ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of those of these questions that are in the database, by id."""
    rows = session.execute(select(QuestionRow.id, QuestionRow.text).where(QuestionRow.id.in_(question_ids)))
    return {row.id: row.text for row in rows}


def set_kinds(session: Session, name: str) -> frozenset[AnswerKind]:
    """Return what kinds of answers the usable questions of a set ask for."""
    member = QuestionSetMemberRow
    query = (
        select(QuestionRow.kind)
        .join(member, member.question_id == QuestionRow.id)
        .where(member.set_id == get_set(session, name).id, member.held.is_(None))
    )
    return frozenset(session.scalars(query.distinct()))


def count_members(session: Session) -> dict[int, tuple[int, int]]:
    """Return for each set id the number of its members and of those held back."""
    member = QuestionSetMemberRow
    counted = select(member.set_id, func.count(), func.count(member.held)).group_by(member.set_id)
    return {set_id: (members, held) for set_id, members, held in session.execute(counted)}


QUESTION_COLUMNS = (
    *(QuestionRow.id, QuestionRow.text, QuestionRow.answer, QuestionRow.level),
    *(QuestionRow.subject, QuestionRow.kind, QuestionRow.images),
)


def as_question(row: Any) -> Question:
    """Return the value of a stored question: a `QuestionRow`, or a row of `QUESTION_COLUMNS`."""
    return Question(row.id, row.text, row.answer, row.level, row.subject, row.kind, tuple(row.images or ()))
