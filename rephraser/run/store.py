"""What a rephrase run reads and stores: questions, candidates, verdicts. Every write may be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Row, insert, select, update
from sqlalchemy.orm import Session

from evaluator.evals.runs import EVAL
from evaluator.grading import AnswerKind
from rephraser.reviews.status import status_query, update_standings
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow
from service.asks.tables import AskRow, NoteRow
from service.database import in_parts, upsert
from service.errors import InputError
from service.questions.images import Image, load_images
from service.questions.tables import QuestionRow
from service.runs.store import Run, find_run, only_run

KIND = "propose"


def find_neighbor_run(session: Session, reference: str) -> Run:
    """Return the run with this name or id, which has to be one of neighbors."""
    run = find_run(session, reference)
    if run.kind != KIND:
        kind = "evaluates a model" if run.kind == EVAL else "is a training"
        raise InputError(
            f"run {run.name!r} {kind} and contains no neighbors. See `tagrpo runs show {run.name}`."
        )
    return run


def choose_run(session: Session, reference: str | None) -> Run:
    """Return the run named, or the only one of neighbors that there is."""
    return only_run(session, KIND) if reference is None else find_neighbor_run(session, reference)


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


def read_candidates(session: Session, run_id: str, question_id: str) -> list[Row[Any]]:
    """Return a run's candidates of a question: their status, text and newest evidence."""
    query = (
        status_query(run_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .add_columns(CandidateRow.text, VerdictRow.evidence)
        .where(StandingRow.question_id == question_id)
    )
    return list(session.execute(query))


class Checked(NamedTuple):
    """A checked candidate as rows."""

    candidate: dict[str, Any]
    proposal: dict[str, Any]
    verdict: dict[str, Any]


def store_checked(session: Session, checked: list[Checked], ask_id: int | None, outcome: str | None) -> None:
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


def store_look(session: Session, name: str, verdict: Mapping[str, Any]) -> bool:
    """Store the verdict of a look, whose name tells it apart, unless it has one; return if it is final."""
    run_id, final = verdict["run_id"], bool(verdict["final"])
    note = {"": {"status": verdict["status"], "final": final}}
    adding = upsert(NoteRow).values(run_id=run_id, name=name, value=note).on_conflict_do_nothing()
    if session.execute(adding.returning(NoteRow.name)).first() is None:
        return bool(session.get_one(NoteRow, (run_id, name)).value[""]["final"])
    session.execute(insert(VerdictRow), [dict(verdict)])
    update_standings(session, [verdict["candidate_id"]])
    return final
