"""Browse stored questions: sets with counts, pages of a set, single questions, labels."""

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from service.errors import InputError, NotFoundError
from service.questions.question import Question
from service.questions.store import Member, as_question, count_members, get_set
from service.questions.tables import QuestionRow, QuestionSetMemberRow, QuestionSetRow

PREFIXES_SHOWN = 5


def list_sets(session: Session) -> list[tuple[QuestionSetRow, int, int]]:
    """Return every set by name, with the number of its members and of those held back."""
    counts = count_members(session)
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
    members = select(QuestionSetMemberRow.position, QuestionSetMemberRow.held, QuestionRow).join(
        QuestionRow, QuestionRow.id == QuestionSetMemberRow.question_id
    )
    matching = members.where(QuestionSetMemberRow.set_id == get_set(session, name).id)
    if level is not None:
        matching = matching.where(QuestionRow.level.in_([level, f"Level {level}"]))
    if subject is not None:
        # By the database on both sides: SQLite knows ASCII letters alone.
        matching = matching.where(func.lower(QuestionRow.subject) == func.lower(subject))
    if search is not None:
        contains = (
            each.icontains(search, autoescape=True) for each in (QuestionRow.text, QuestionRow.answer)
        )
        matching = matching.where(or_(*contains))
    if held:
        matching = matching.where(QuestionSetMemberRow.held.is_not(None))
    total = session.scalar(select(func.count()).select_from(matching.subquery())) or 0
    rows = session.execute(
        matching.where(QuestionSetMemberRow.position > after)
        .order_by(QuestionSetMemberRow.position)
        .limit(limit + 1)
    ).all()
    page_members = [Member(position, as_question(row), held) for position, held, row in rows[:limit]]
    return page_members, total, page_members[-1].position if len(rows) > limit else None


def find_question(session: Session, prefix: str) -> Question:
    """Return the question whose id begins with `prefix` (with or without its `q_`)."""
    wanted = prefix if prefix.startswith("q_") else f"q_{prefix}"
    rows = session.scalars(
        select(QuestionRow)
        .where(QuestionRow.id.startswith(wanted, autoescape=True))
        .order_by(QuestionRow.id)
        .limit(PREFIXES_SHOWN + 1)
    ).all()
    if not rows:
        raise NotFoundError(
            f'no question has an id that starts with "{prefix}". See `tagrpo questions list SET`.'
        )
    if len(rows) > 1:
        more = ", ..." if len(rows) > PREFIXES_SHOWN else ""
        some = ", ".join(row.id for row in rows[:PREFIXES_SHOWN])
        raise InputError(f'several ids start with "{prefix}": {some}{more}. Give more characters.')
    return as_question(rows[0])


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
