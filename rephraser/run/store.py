"""What a rephrase run reads and stores: questions, candidates, verdicts. Every write may be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Row, Table, insert, select, update
from sqlalchemy.orm import Session

from evaluator.grading import AnswerKind
from rephraser.reviews.status import status_query, update_standings
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow
from service.asks.store import one_by_one
from service.asks.tables import AskRow, NoteRow
from service.database import in_parts, upsert
from service.questions.images import Image, load_images
from service.questions.tables import QuestionRow

# The bare tables: the ORM spends more on a statement than SQLite does.
_CANDIDATES = cast(Table, CandidateRow.__table__)
_PROPOSALS = cast(Table, ProposalRow.__table__)


@dataclass(frozen=True)
class Subject:
    """A question as a run works on it."""

    id: str
    text: str
    answer: str
    kind: AnswerKind
    images: tuple[Image, ...]


def read_subjects(session: Session, ids: Sequence[str]) -> list[Subject]:
    """Return the questions of these ids, in their order."""
    row = QuestionRow
    subjects = {}
    for part in in_parts(list(dict.fromkeys(ids))):
        query = select(row.id, row.text, row.answer, row.kind, row.images).where(row.id.in_(part))
        rows = session.execute(query).all()
        pictures = load_images(session, (id for each in rows for id in each.images or ()))
        for id, text, answer, kind, images in rows:
            placed = tuple(pictures[image] for image in images or ())
            subjects[id] = Subject(id, text, answer, AnswerKind(kind), placed)
    return [subjects[id] for id in ids]


@one_by_one
def read_candidates(session: Session, key: tuple[str, str]) -> list[Row[Any]]:
    """Return the candidates of a question by (run, question): their status, text and newest evidence."""
    run_id, question_id = key
    query = (
        status_query(run_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .add_columns(CandidateRow.text, VerdictRow.evidence)
        .where(StandingRow.question_id == question_id)
    )
    return list(session.execute(query))


@dataclass(frozen=True)
class Checked:
    """Candidates of a question that were checked, as rows; what parsing found in the reply to an ask."""

    candidates: Sequence[Mapping[str, Any]]
    proposals: Sequence[Mapping[str, Any]]
    verdicts: Sequence[Mapping[str, Any]]
    ask_id: int | None = None
    outcome: str | None = None


@one_by_one
def store_checked(session: Session, checked: Checked) -> None:
    """Store candidates with their first verdicts; a candidate that has a verdict in the run keeps it."""
    if checked.candidates:
        session.execute(upsert(_CANDIDATES).on_conflict_do_nothing(), checked.candidates)
        session.execute(upsert(_PROPOSALS).on_conflict_do_nothing(), checked.proposals)
        of_run = VerdictRow.run_id == checked.verdicts[0]["run_id"]
        ids = [verdict["candidate_id"] for verdict in checked.verdicts]
        query = select(VerdictRow.candidate_id).where(of_run, VerdictRow.candidate_id.in_(ids))
        judged = set(session.scalars(query))
        fresh = [dict(verdict) for verdict in checked.verdicts if verdict["candidate_id"] not in judged]
        if fresh:
            session.execute(insert(VerdictRow), fresh)
        update_standings(session, ids)
    if checked.outcome is not None:
        session.execute(update(AskRow).where(AskRow.id == checked.ask_id).values(outcome=checked.outcome))


@one_by_one
def store_look(session: Session, look: tuple[str, Mapping[str, Any]]) -> bool:
    """Store the verdict of a look, whose name tells it apart, unless it has one; return if it is final."""
    name, verdict = look
    outcome = {"status": verdict["status"], "final": verdict["final"]}
    noted = session.execute(
        upsert(NoteRow)
        .values(run_id=verdict["run_id"], name=name, value={"": outcome})
        .on_conflict_do_nothing()
        .returning(NoteRow.name)
    ).first()
    if noted is None:
        return bool(session.get_one(NoteRow, (verdict["run_id"], name)).value[""]["final"])
    session.execute(insert(VerdictRow), [dict(verdict)])
    update_standings(session, [verdict["candidate_id"]])
    return bool(verdict["final"])
