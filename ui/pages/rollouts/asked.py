"""The questions that a training asked, if the database has them."""

from sqlalchemy.orm import Session

from service.errors import NotFoundError
from service.questions import Question
from service.questions.browsing import find_question
from service.questions.store import question_texts
from ui.pages.state.database import cached

_TEXT = 160


@cached
def texts_of(session: Session, question_ids: tuple[str, ...]) -> dict[str, str]:
    """Return the beginnings of the texts of those questions that are in the database, by id."""
    return {id: text[:_TEXT] for id, text in question_texts(session, question_ids).items()}


@cached
def asked(session: Session, question_id: str) -> Question | None:
    """Return a question; None if it is not in the database."""
    try:
        return find_question(session, question_id)
    except NotFoundError:
        return None
