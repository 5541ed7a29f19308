"""Questions and named sets in the database: store, load, browse, remove."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, delete, func, insert, or_, select
from sqlalchemy.orm import Session

from rephraser.tables import QuestionRow, QuestionSetMemberRow, QuestionSetRow
from service.answer_kinds import AnswerKind
from service.database import columns_of, find_by_id, in_parts, upsert, utc_now
from service.errors import InputError, NotFoundError
from service.hashing import content_hash
from service.questions.question import Question
from service.runs.store import list_runs

QUESTION_COLUMNS = columns_of(QuestionRow, Question)


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


def store_set(session: Session, name: str, members: Sequence[Member], spec: dict[str, Any]) -> int:
    """Write a new set in the caller's transaction; return how many of its questions are new."""
    new = store_questions(session, (member.question for member in members))
    row = QuestionSetRow(name=name, spec=spec, created_at=utc_now())
    session.add(row)
    session.flush()
    for part in in_parts(members):
        rows = [
            {"set_id": row.id, "position": each.position, "question_id": each.question.id, "held": each.held}
            for each in part
        ]
        session.execute(insert(QuestionSetMemberRow), rows)
    return new


def find_same_set(session: Session, name: str, content: str) -> QuestionSetRow | None:
    """Return the set of that name, or None; a set with another content hash is refused."""
    stored = session.scalar(select(QuestionSetRow).where(QuestionSetRow.name == name))
    if stored is None or stored.content_hash == content:
        return stored
    raise InputError(
        f'the question set "{name}" ({stored.spec.get("source", "a mix")}, {stored.created_at}) has other '
        "questions. A set never changes, so choose another name (`questions import`: --name)."
    )


def get_set(session: Session, name: str) -> QuestionSetRow:
    """Return the set of that name."""
    stored = session.scalar(select(QuestionSetRow).where(QuestionSetRow.name == name))
    if stored is not None:
        return stored
    names = session.scalars(select(QuestionSetRow.name).order_by(QuestionSetRow.name)).all()
    there = f"available: {', '.join(names)}" if names else "import one with `tagrpo questions import`"
    raise NotFoundError(f'no question set "{name}"; {there}.')


def check_removable(session: Session, name: str) -> QuestionSetRow:
    """Return the set of that name, which nothing builds on."""
    stored, refusal = get_set(session, name), f'the question set "{name}" cannot be removed:'
    runs = [run.name for run in list_runs(session) if run.spec.get("questions") == name]
    mixes = [
        other.name
        for other in session.scalars(select(QuestionSetRow).order_by(QuestionSetRow.name))
        if name in {other.spec[part]["set"] for part in ("base", "extra") if part in other.spec}
    ]
    if runs:
        raise InputError(f"{refusal} runs use it: {', '.join(runs)} (`tagrpo runs remove`).")
    if mixes:
        raise InputError(f"{refusal} these sets were mixed from it: {', '.join(mixes)}.")
    return stored


def remove_set(session: Session, name: str) -> None:
    """Remove the set of that name, in the transaction of `session`; its questions stay, as all texts do."""
    id = check_removable(session, name).id
    session.execute(delete(QuestionSetMemberRow).where(QuestionSetMemberRow.set_id == id))
    session.execute(delete(QuestionSetRow).where(QuestionSetRow.id == id))


def load_members(session: Session, name: str) -> list[Member]:
    """Return all members of a set in order, held ones included."""
    return _read_members(session, _select_members(session, name))


def _select_members(session: Session, name: str) -> Select[Any]:
    place = QuestionSetMemberRow
    columns = select(place.position, place.held, *QUESTION_COLUMNS)
    joined = columns.join(QuestionRow, QuestionRow.id == place.question_id)
    return joined.where(place.set_id == get_set(session, name).id).order_by(place.position)


def _read_members(session: Session, query: Select[Any]) -> list[Member]:
    return [Member(row.position, as_question(row), row.held) for row in session.execute(query)]


def load_question_set(session: Session, name: str) -> list[Question]:
    """Return the usable questions of a set (those not held back), in order."""
    return [member.question for member in load_members(session, name) if member.held is None]


def load_questions(session: Session, question_ids: Sequence[str]) -> dict[str, Question]:
    """Return those of these questions that are in the database, by id."""
    query = select(*QUESTION_COLUMNS)
    parts = (session.execute(query.where(QuestionRow.id.in_(part))) for part in in_parts(question_ids))
    return {row.id: as_question(row) for rows in parts for row in rows}


def usable_kinds(session: Session, name: str) -> dict[str, AnswerKind]:
    """Return the kinds of the usable questions of a set by id, in order."""
    member = QuestionSetMemberRow
    query = select(QuestionRow.id, QuestionRow.kind).join(member, member.question_id == QuestionRow.id)
    usable = query.where(member.set_id == get_set(session, name).id, member.held.is_(None))
    rows = session.execute(usable.order_by(member.position).execution_options(yield_per=1000))
    return {row.id: AnswerKind(row.kind) for row in rows}


def list_sets(session: Session) -> list[tuple[QuestionSetRow, int, int]]:
    """Return every set by name, with the number of its members and of those held back."""
    place = QuestionSetMemberRow
    counted = select(place.set_id, func.count(), func.count(place.held)).group_by(place.set_id)
    counts = {set_id: (members, held) for set_id, members, held in session.execute(counted)}
    rows = session.scalars(select(QuestionSetRow).order_by(QuestionSetRow.name))
    return [(row, *counts.get(row.id, (0, 0))) for row in rows]


def page(
    session: Session,
    name: str,
    *,
    level: str | None,
    subject: str | None,
    search: str | None,
    held: bool,
    limit: int,
    after: int,
) -> tuple[list[Member], int, int | None]:
    """Return up to `limit` members behind position `after`, how many match, and where to go on (None: end).

    None and False do not restrict. `level` "5" also finds "Level 5"; `search` is looked for in text and
    answer, without regard to the case of ASCII letters.
    """
    matching = _select_members(session, name)
    if level is not None:
        matching = matching.where(QuestionRow.level.in_([level, f"Level {level}"]))
    if subject is not None:
        # By the database on both sides: SQLite knows ASCII letters alone.
        matching = matching.where(func.lower(QuestionRow.subject) == func.lower(subject))
    if search is not None:
        texts = (QuestionRow.text, QuestionRow.answer)
        matching = matching.where(or_(*(each.icontains(search, autoescape=True) for each in texts)))
    if held:
        matching = matching.where(QuestionSetMemberRow.held.is_not(None))
    total = session.scalar(select(func.count()).select_from(matching.order_by(None).subquery())) or 0
    behind = matching.where(QuestionSetMemberRow.position > after)
    members = _read_members(session, behind.limit(limit + 1))
    more = len(members) > limit
    return members[:limit], total, members[limit - 1].position if more else None


def find_question(session: Session, reference: str) -> Question:
    """Return the question whose id begins with `reference` (with or without its `q_`)."""
    hint = "See `tagrpo questions list SET`."
    return as_question(find_by_id(session, QuestionRow, reference, "question", hint))


def places(session: Session, question_id: str) -> list[tuple[str, int, str | None]]:
    """Return the sets of a question by name, its row in each, and why it is held back there, if it is."""
    rows = session.execute(
        select(QuestionSetRow.name, QuestionSetMemberRow.position, QuestionSetMemberRow.held)
        .join(QuestionSetRow, QuestionSetRow.id == QuestionSetMemberRow.set_id)
        .where(QuestionSetMemberRow.question_id == question_id)
        .order_by(QuestionSetRow.name)
    )
    return [(name, position, held) for name, position, held in rows]


def count_labels(session: Session) -> list[tuple[str | None, str | None, int]]:
    """Return the number of questions by subject and level; None where the source gave none."""
    labels = (QuestionRow.subject, QuestionRow.level)
    rows = session.execute(select(*labels, func.count()).group_by(*labels)).all()
    return [(subject, level, number) for subject, level, number in rows]


def as_question(row: Any) -> Question:
    """Return the question of a row of `QUESTION_COLUMNS`, or of a `QuestionRow`."""
    images = tuple(row.images or ())
    return Question(row.id, row.text, row.answer, row.level, row.subject, AnswerKind(row.kind), images)
