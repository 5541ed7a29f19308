"""Removing a question set: its name and the places in it, while nothing builds on it.

The questions themselves are texts addressed by their content, as everywhere: they stay.
"""

from sqlalchemy import delete
from sqlalchemy.orm import Session

from service.errors import InputError
from service.questions.browsing import list_sets
from service.questions.store import StoredSet, get_set
from service.questions.tables import QuestionSetCountsRow, QuestionSetMemberRow, QuestionSetRow
from service.runs.store import list_runs


def check_removable(session: Session, name: str) -> StoredSet:
    """Return the set of that name, which nothing builds on.

    Raises:
        NotFoundError: there is no such set.
        InputError: runs are over it, or sets were mixed from it; the message names them.
    """
    stored = get_set(session, name)
    runs = [run.name for run in list_runs(session) if run.spec.get("questions") == name]
    mixes = [
        other.name
        for other, _, _ in list_sets(session)
        if name in {other.spec[part]["set"] for part in ("base", "extra") if part in other.spec}
    ]
    obstacles = [
        *([f"runs are over it: {', '.join(runs)} (`tagrpo runs remove`)"] if runs else []),
        *([f"sets were mixed from it: {', '.join(mixes)}"] if mixes else []),
    ]
    if obstacles:
        raise InputError(f'the question set "{name}" cannot be removed: {"; ".join(obstacles)}.')
    return stored


def remove_set(session: Session, name: str) -> None:
    """Remove the set of that name, in the transaction of `session`.

    Raises:
        NotFoundError, InputError: see `check_removable`.
    """
    id = check_removable(session, name).id
    for row, column in (
        (QuestionSetMemberRow, QuestionSetMemberRow.set_id),
        (QuestionSetCountsRow, QuestionSetCountsRow.set_id),
        (QuestionSetRow, QuestionSetRow.id),
    ):
        session.execute(delete(row).where(column == id))
