"""What a rephrase run reads and stores: questions, candidates, verdicts, of which the newest counts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, insert, select, update
from sqlalchemy.orm import Session

from rephraser.questions.store import load_questions
from rephraser.reviews.status import status_query, update_standings
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow
from service.asks.tables import AskRow
from service.database import upsert
from service.questions.images import Image, load_images
from service.questions.question import Question
from service.runs.store import Run, find_run

KIND = "propose"


def find_neighbor_run(session: Session, reference: str | None) -> Run:
    """Return the rephrase run of this name or id; without a reference, the only one."""
    return find_run(session, reference, KIND)


def read_questions(session: Session, ids: Sequence[str]) -> list[tuple[Question, tuple[Image, ...]]]:
    """Return the questions of these ids with their images, in their order."""
    questions = load_questions(session, ids)
    images = load_images(session, (id for each in questions.values() for id in each.images))
    return [(questions[id], tuple(images[image] for image in questions[id].images)) for id in ids]


def candidates_query(run_id: str) -> Select[*tuple[Any, ...]]:
    """Return the query of a run's candidates: their status, text, and newest verdict with its evidence."""
    verdict = (
        VerdictRow.status.label("verdict"),
        VerdictRow.final.label("verdict_final"),
        VerdictRow.evidence,
    )
    return (
        status_query(run_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .add_columns(CandidateRow.text, *verdict)
    )


def read_candidates(session: Session, run_id: str, question_id: str) -> list[Row[Any]]:
    """Return a run's candidates of a question, as `candidates_query` has them."""
    return list(session.execute(candidates_query(run_id).where(StandingRow.question_id == question_id)))


class CheckedRow(NamedTuple):
    """A checked candidate as rows."""

    candidate: dict[str, Any]
    proposal: dict[str, Any]
    verdict: dict[str, Any]


def store_checked(
    session: Session, checked: list[CheckedRow], ask_id: int | None, outcome: str | None
) -> None:
    """Store candidates with their first verdicts, and what parsing found in the reply to an ask.

    A candidate that has a verdict in the run keeps it.
    """
    if checked:
        candidates, proposals, verdicts = map(list, zip(*checked, strict=True))
        table: Any  # bare, since the ORM spends more on a statement than SQLite does
        for table, rows in ((CandidateRow.__table__, candidates), (ProposalRow.__table__, proposals)):
            session.execute(upsert(table).on_conflict_do_nothing(), rows)
        ids, of_run = [row["id"] for row in candidates], VerdictRow.run_id == verdicts[0]["run_id"]
        query = select(VerdictRow.candidate_id).where(of_run, VerdictRow.candidate_id.in_(ids))
        judged = set(session.scalars(query))
        if fresh := [verdict for verdict in verdicts if verdict["candidate_id"] not in judged]:
            session.execute(insert(VerdictRow), fresh)
        update_standings(session, ids)
    if outcome is not None:
        session.execute(update(AskRow).where(AskRow.id == ask_id).values(outcome=outcome))


def store_verdict(session: Session, look: int, verdict: Mapping[str, Any]) -> bool:
    """Store the verdict of a look at a candidate unless it has one; return whether the newest is final."""
    query = select(VerdictRow.final, VerdictRow.evidence).filter_by(
        run_id=verdict["run_id"], candidate_id=verdict["candidate_id"]
    )
    stored = session.execute(query.order_by(VerdictRow.id)).all()
    if sum("counts" in each.evidence for each in stored) > look:
        return bool(stored[-1].final)
    session.execute(insert(VerdictRow), [dict(verdict)])
    update_standings(session, [verdict["candidate_id"]])
    return bool(verdict["final"])
