"""What a solver answers: questions and candidates, by their ids."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.tables import CandidateRow
from service.questions.tables import QuestionRow

_IDS_PER_QUERY = 5_000


@dataclass(frozen=True)
class Subject:
    """A question or candidate as samplers know it: `problem_id` is its id, the numbers are its place."""

    id: int
    position: int
    problem_id: str
    text: str


def read_texts(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of questions and candidates by id."""
    wanted = list(dict.fromkeys(ids))
    found: dict[str, str] = {}
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        part = wanted[start : start + _IDS_PER_QUERY]
        for row in (QuestionRow, CandidateRow):
            found.update(session.execute(select(row.id, row.text).where(row.id.in_(part))).all())
    return found


def read_subjects(session: Session, ids: Sequence[str]) -> list[Subject]:
    """Return the subjects of these ids, in their order."""
    texts = read_texts(session, ids)
    return [Subject(place, place, identity, texts[identity]) for place, identity in enumerate(ids)]
