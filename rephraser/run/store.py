"""What a rephrase run reads and stores: questions, candidates, verdicts. Every write may be repeated."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Table, insert, select, update
from sqlalchemy.orm import Session

from evaluator.grading import AnswerKind
from rephraser.checks.wording import likeness
from rephraser.reviews.status import CandidateStatus, status_query, update_standings
from rephraser.run.requests import BY_ANSWERS, failure_reason
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow, candidate_id
from service.asks.tables import AskRow, NoteRow
from service.database import in_parts, upsert, utc_now
from service.hashing import canonical_text
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
    subjects = {}
    for part in in_parts(list(dict.fromkeys(ids))):
        rows = session.execute(
            select(
                QuestionRow.id, QuestionRow.text, QuestionRow.answer, QuestionRow.kind, QuestionRow.images
            ).where(QuestionRow.id.in_(part))
        ).all()
        pictures = load_images(session, (id for row in rows for id in row.images or ()))
        for id, text, answer, kind, images in rows:
            placed = tuple(pictures[image] for image in images or ())
            subjects[id] = Subject(id, text, answer, AnswerKind(kind), placed)
    return [subjects[id] for id in ids]


@dataclass(frozen=True)
class Proposed:
    """A text that was proposed to a question, whose own text is `question`; `columns` of its proposal."""

    question_id: str
    question: str
    text: str
    columns: Mapping[str, Any]


def store_candidates(session: Session, run_id: str, proposed: Sequence[Proposed]) -> list[bool]:
    """Store candidates and who proposed them; return which are new to the run.

    The first of several identical texts is kept. All of `proposed` have the same columns.
    """
    ids = [candidate_id(each.question_id, each.text) for each in proposed]
    there: set[str] = set()
    for part in in_parts(ids):
        query = select(ProposalRow.candidate_id).where(
            ProposalRow.run_id == run_id, ProposalRow.candidate_id.in_(part)
        )
        there.update(session.scalars(query))
    new = []
    for identity in ids:
        new.append(identity not in there)
        there.add(identity)
    fresh = [(identity, each) for identity, each, is_new in zip(ids, proposed, new, strict=True) if is_new]
    if fresh:
        now = utc_now()
        candidates = [
            {
                "id": identity,
                "question_id": each.question_id,
                "text": canonical_text(each.text),
                "created_at": now,
                "likeness": likeness(each.question, each.text),
            }
            for identity, each in fresh
        ]
        session.execute(upsert(_CANDIDATES).on_conflict_do_nothing(), candidates)
        proposals = [
            {"run_id": run_id, "question_id": each.question_id, "candidate_id": identity, **each.columns}
            for identity, each in fresh
        ]
        session.execute(insert(_PROPOSALS), proposals)
        update_standings(session, [identity for identity, _ in fresh])
    return new


Checked = tuple[str, Sequence[Proposed], Sequence[Mapping[str, Any]], Mapping[int, str]]
"""A run; candidates of a question; their first verdicts; by ask, what parsing found in the reply."""


def store_checked(session: Session, checked: Sequence[Checked]) -> list[None]:
    """Store candidates with their first verdicts; a candidate that has a verdict in the run keeps it."""
    for run_id, proposed, verdicts, outcomes in checked:
        store_candidates(session, run_id, proposed)
        ids = [verdict["candidate_id"] for verdict in verdicts]
        judged = set(
            session.scalars(
                select(VerdictRow.candidate_id).where(
                    VerdictRow.run_id == run_id, VerdictRow.candidate_id.in_(ids)
                )
            )
        )
        fresh = [dict(verdict) for verdict in verdicts if verdict["candidate_id"] not in judged]
        if fresh:
            session.execute(insert(VerdictRow), fresh)
            update_standings(session, [verdict["candidate_id"] for verdict in fresh])
        for ask_id, outcome in outcomes.items():
            session.execute(update(AskRow).where(AskRow.id == ask_id).values(outcome=outcome))
    return [None] * len(checked)


def store_looks(session: Session, looks: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Store the verdict of each look unless it has one; return its status, and if it is final.

    A look is its name, which tells it apart in the run, and the row of its verdict.
    """
    kept = []
    for name, verdict in looks:
        outcome = {"status": verdict["status"], "final": verdict["final"]}
        noted = session.execute(
            upsert(NoteRow)
            .values(run_id=verdict["run_id"], name=name, value={"": outcome})
            .on_conflict_do_nothing()
            .returning(NoteRow.name)
        ).first()
        if noted is not None:
            session.execute(insert(VerdictRow), [dict(verdict)])
            update_standings(session, [verdict["candidate_id"]])
        else:
            outcome = session.get_one(NoteRow, (verdict["run_id"], name)).value[""]
        kept.append(outcome)
    return kept


def read_statuses(session: Session, asked: Sequence[tuple[str, str]]) -> list[list[CandidateStatus]]:
    """Return the candidates of questions by (run, question), in order, with their present status."""
    by_question: dict[tuple[str, str], list[CandidateStatus]] = defaultdict(list)
    for run_id in {run_id for run_id, _ in asked}:
        ids = [question_id for run, question_id in asked if run == run_id]
        for row in session.execute(status_query(run_id).where(StandingRow.question_id.in_(ids))):
            status = CandidateStatus(*row)
            by_question[run_id, status.question_id].append(status)
    return [by_question[key] for key in asked]


def read_reasons(session: Session, asked: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return by (run, question) why candidates failed, by their ordinals."""
    reasons = []
    for (run_id, _), candidates in zip(asked, read_statuses(session, asked), strict=True):
        failed = {each.candidate_id: each for each in candidates if each.status in BY_ANSWERS}
        rows = session.execute(
            select(VerdictRow.candidate_id, VerdictRow.evidence)
            .where(VerdictRow.run_id == run_id, VerdictRow.candidate_id.in_(failed))
            .order_by(VerdictRow.id)
        )
        evidence = {identity: dict(stored) for identity, stored in rows}
        reasons.append(
            {
                str(each.ordinal): failure_reason(each, evidence.get(identity, {}))
                for identity, each in failed.items()
            }
        )
    return reasons


def read_edited(session: Session, asked: Sequence[tuple[str, str]]) -> list[list[tuple[str, str, int, Any]]]:
    """Return (id, text, ordinal, findings) of edited candidates that wait for answers, by (run, question)."""
    waiting: list[list[tuple[str, str, int, Any]]] = []
    for (run_id, _), candidates in zip(asked, read_statuses(session, asked), strict=True):
        edited = {each.candidate_id: each for each in candidates if each.mended_from and not each.final}
        if not edited:
            waiting.append([])
            continue
        rows = session.execute(
            select(CandidateRow.id, CandidateRow.text, VerdictRow.evidence)
            .join(VerdictRow, VerdictRow.candidate_id == CandidateRow.id)
            .where(VerdictRow.run_id == run_id, CandidateRow.id.in_(edited))
            .order_by(VerdictRow.id.desc())
        )
        first = {id: (text, evidence["findings"]) for id, text, evidence in rows}  # before any answer
        waiting.append([(id, first[id][0], each.ordinal, first[id][1]) for id, each in edited.items()])
    return waiting
